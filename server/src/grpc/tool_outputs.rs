//! The methods of `contextstore.v1.ToolOutputs`: parse, ask the store, answer.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::tool_outputs_server::ToolOutputs;
use tonic::{Request, Response, Streaming};

use super::paced::Items;
use super::service::{Answer, Service};
use super::{grep, outputs, outputs_trim, put};

#[tonic::async_trait]
impl ToolOutputs for Service {
    async fn put_tool_output(
        &self,
        request: Request<Streaming<pb::PutToolOutputRequest>>,
    ) -> Answer<pb::PutToolOutputResponse> {
        Ok(Response::new(put::put(&self.serving, request).await?))
    }

    type ReadToolOutputStream = Items<pb::ReadToolOutputResponse>;

    async fn read_tool_output(
        &self,
        request: Request<pb::ReadToolOutputRequest>,
    ) -> Answer<Self::ReadToolOutputStream> {
        Ok(self.stream(&request, outputs::read(&self.serving, request.get_ref())).await?)
    }

    type GrepToolOutputStream = Items<pb::GrepToolOutputResponse>;

    async fn grep_tool_output(
        &self,
        request: Request<pb::GrepToolOutputRequest>,
    ) -> Answer<Self::GrepToolOutputStream> {
        Ok(self.stream(&request, grep::grep(&self.serving, request.get_ref())).await?)
    }

    async fn stat_tool_output(
        &self,
        request: Request<pb::StatToolOutputRequest>,
    ) -> Answer<pb::StatToolOutputResponse> {
        Ok(Response::new(outputs::stat(&self.serving, request.get_ref()).await?))
    }

    async fn list_tool_outputs(
        &self,
        request: Request<pb::ListToolOutputsRequest>,
    ) -> Answer<pb::ListToolOutputsResponse> {
        Ok(Response::new(outputs::list(&self.serving, request.get_ref()).await?))
    }

    async fn trim_tool_outputs(
        &self,
        request: Request<pb::TrimToolOutputsRequest>,
    ) -> Answer<pb::TrimToolOutputsResponse> {
        Ok(outputs_trim::trim(self, request.into_inner()).await?)
    }

    async fn collect_garbage(
        &self,
        request: Request<pb::CollectGarbageRequest>,
    ) -> Answer<pb::CollectGarbageResponse> {
        Ok(Response::new(outputs::collect(&self.serving, request.get_ref()).await?))
    }
}
