//! Calls of the service by the names of its methods, with requests and answers as proto JSON.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use prost_reflect::prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions, ServiceDescriptor,
    Value as Field,
};
use serde_json::Value;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// No call of a scenario takes that long.
const DEADLINE: Duration = Duration::from_secs(60);

/// The service of tasks, as its descriptors say.
pub fn service() -> ServiceDescriptor {
    let pool = DescriptorPool::decode(contextstore_proto::FILE_DESCRIPTOR_SET).unwrap();
    pool.get_service_by_name("contextstore.v1.ContextStore").unwrap()
}

/// The methods of all services, as their descriptors say. No two have the same name.
pub fn methods() -> Vec<MethodDescriptor> {
    let pool = DescriptorPool::decode(contextstore_proto::FILE_DESCRIPTOR_SET).unwrap();
    pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

/// Somebody who calls a server.
pub struct Caller {
    channel: Channel,
    token: Option<String>,
    methods: Vec<MethodDescriptor>,
}

/// All that a call answered.
pub struct Answers {
    pub messages: Vec<DynamicMessage>,
    /// What came after them.
    pub error: Option<Status>,
    /// Whether the method answers a stream.
    pub streamed: bool,
}

impl Caller {
    /// Over a socket.
    pub async fn unix(socket: &Path) -> Self {
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap();
        Self { channel: endpoint.connect().await.unwrap(), token: None, methods: methods() }
    }

    /// Over TCP, with a token.
    pub async fn tcp(address: &str, token: &str) -> Self {
        let endpoint = Endpoint::from_shared(address.replace("tcp:", "http://")).unwrap();
        Self { channel: endpoint.connect().await.unwrap(), token: Some(token.to_owned()), methods: methods() }
    }

    /// Makes a call and takes its answers until they end or are enough. An error of the server is an answer.
    pub async fn call(
        &self,
        method: &str,
        requests: &[Value],
        enough: impl Fn(&Answers) -> bool,
    ) -> Result<Answers, String> {
        let found = self.methods.iter().find(|found| found.name() == method);
        let method = found.ok_or_else(|| format!("there is no method {method}"))?;
        if !method.is_client_streaming() && requests.len() != 1 {
            return Err("it takes one request".to_owned());
        }
        let parse = |json: &Value| {
            DynamicMessage::deserialize(method.input(), json).map_err(|error| format!("{json}: {error}"))
        };
        let requests = requests.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let mut request = Request::new(tokio_stream::iter(requests));
        if let Some(token) = &self.token {
            let header = MetadataValue::try_from(format!("Bearer {token}")).unwrap();
            request.metadata_mut().insert("authorization", header);
        }
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name()).parse().unwrap();
        let mut answers =
            Answers { messages: Vec::new(), error: None, streamed: method.is_server_streaming() };
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(32 << 20);
        let exchange = async {
            grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            let codec = DynamicCodec { answer: method.output() };
            let mut stream = grpc.streaming(request, path, codec).await?.into_inner();
            while !enough(&answers) {
                let Some(message) = stream.message().await? else { break };
                answers.messages.push(message);
            }
            Ok::<_, Status>(())
        };
        let done =
            tokio::time::timeout(DEADLINE, exchange).await.map_err(|_| "it does not end".to_owned())?;
        answers.error = done.err();
        Ok(answers)
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Value::from(self.json()))?;
        self.error
            .as_ref()
            .map_or(Ok(()), |status| write!(f, " and {:?}: {}", status.code(), status.message()))
    }
}

impl Answers {
    /// The answers as proto JSON, with the fields that have default values.
    pub fn json(&self) -> Vec<Value> {
        let options = SerializeOptions::new().skip_default_fields(false);
        let json = |message: &DynamicMessage| {
            message.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
        };
        self.messages.iter().map(json).collect()
    }

    /// The `data` of all answers.
    pub fn data(&self) -> Vec<u8> {
        let data = |message: &DynamicMessage| match message.get_field_by_name("data").as_deref() {
            Some(Field::Bytes(data)) => data.to_vec(),
            other => panic!("data is {other:?}"),
        };
        self.messages.iter().flat_map(data).collect()
    }

    /// The `records` of all answers.
    pub fn records(&self) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        for message in &self.messages {
            let Some(field) = message.get_field_by_name("records") else { continue };
            for record in field.as_list().unwrap() {
                records.push(record.as_bytes().unwrap().to_vec());
            }
        }
        records
    }
}

/// Encodes and decodes messages that are known by their descriptors only.
#[derive(Clone)]
struct DynamicCodec {
    answer: MessageDescriptor,
}

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let decoded = DynamicMessage::decode(self.answer.clone(), buffer);
        decoded.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
