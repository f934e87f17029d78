//! The gRPC service: wire ⇄ model, the error table, and the gate that every call goes through. No decisions.

mod answer;
mod append;
mod chat;
mod compress;
mod convert;
mod ending;
mod enums;
mod follow;
mod gate;
mod grep;
mod info;
mod inherit;
mod intake;
mod messages;
mod metered;
mod methods;
mod outputs;
mod outputs_trim;
mod paced;
mod peer;
mod put;
mod read;
mod records;
mod request;
mod service;
mod serving;
mod settings;
mod status;
mod streams;
mod tasks;
mod token;
mod tool_outputs;

use std::sync::Arc;

use contextstore_proto::FILE_DESCRIPTOR_SET;
use contextstore_proto::v1::context_store_server::ContextStoreServer;
use contextstore_proto::v1::tool_outputs_server::ToolOutputsServer;
use tonic::service::Routes;
use tonic_health::server::HealthReporter;

pub(crate) use gate::{Access, Gate};
pub(crate) use intake::InFlight;
pub(crate) use peer::{Connection, Peer, Via};
pub(crate) use service::Service;
pub(crate) use serving::Serving;

/// The names of the services, for health.
pub(crate) const SERVICES: [&str; 2] = ["contextstore.v1.ContextStore", "contextstore.v1.ToolOutputs"];

/// Reflection in both its versions. To decode all that it can tell takes milliseconds, and needs nothing of a server.
pub(crate) fn reflection() -> Result<Routes, tonic_reflection::server::Error> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // So that people see what is in the details of an error.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Routes::new(reflection().build_v1()?).add_service(reflection().build_v1alpha()?))
}

/// Every service: ours, health and reflection; and who says whether we are healthy.
pub(crate) fn routes(serving: Arc<Serving>, reflection: Routes) -> (Routes, HealthReporter) {
    let (health, health_service) = tonic_health::server::health_reporter();
    // The gate knows how large a message may be, and says so in our own words.
    let service = Service::new(serving);
    let outputs = ToolOutputsServer::new(service.clone()).max_decoding_message_size(usize::MAX);
    let service = ContextStoreServer::new(service).max_decoding_message_size(usize::MAX);
    (reflection.add_service(service).add_service(outputs).add_service(health_service), health)
}
