//! The codec of the service: prost's, with an error of our own for bytes that are no message.

use std::collections::HashMap;
use std::marker::PhantomData;

use prost::{DecodeError, Message};
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic::{Code, Status};
use tonic_prost::{ProstCodec, ProstEncoder};
use tonic_types::{ErrorDetails, StatusExt};

use bytes::Buf as _;

use crate::ERROR_DOMAIN;
use crate::lists;
use crate::v1::ErrorReason;

/// Encodes `T` and decodes `U`.
#[derive(Debug, Clone)]
pub struct Codec<T, U> {
    types: PhantomData<(T, U)>,
}

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self { types: PhantomData }
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Strict<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        Strict { types: PhantomData }
    }
}

/// Decodes `U`; what it cannot decode is the caller's mistake, and the field is named.
#[derive(Debug, Clone)]
pub struct Strict<U> {
    types: PhantomData<U>,
}

impl<U: Message + Default> Decoder for Strict<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let name = std::any::type_name::<U>().rsplit("::").next().unwrap_or_default();
        if let Some((_, field, most)) = lists::too_long(name, bytes.chunk()) {
            return Err(too_many(field, *most));
        }
        U::decode(bytes).map(Some).map_err(|error| malformed(&error))
    }
}

fn too_many(field: &str, most: usize) -> Status {
    let problem = format!("has more than {most} elements");
    let mut details = ErrorDetails::new();
    let metadata = HashMap::from([("field".to_owned(), field.to_owned())]);
    details.set_error_info(ErrorReason::InvalidField.as_str_name(), ERROR_DOMAIN, metadata);
    details.add_bad_request_violation(field, problem.as_str());
    Status::with_error_details(Code::InvalidArgument, format!("{field} {problem}"), details)
}

/// prost tells where it stopped in words only: `message: Inner.field: Outer.field: problem`.
fn malformed(error: &DecodeError) -> Status {
    let words = error.to_string();
    let words = words.strip_prefix("failed to decode Protobuf message: ").unwrap_or(&words);
    let (mut problem, mut path) = (words, Vec::new());
    while let Some((place, rest)) = problem.split_once(": ")
        && let Some((_, field)) = place.split_once('.')
    {
        // As Rust has to write a name that is a word of its own.
        path.insert(0, field.strip_prefix("r#").unwrap_or(field));
        problem = rest;
    }
    // Of the two forms of a message prost knows only the name of the choice.
    if let Some(at) = path.iter().position(|field| *field == "body") {
        if at + 1 < path.len() {
            path[at] = "fields";
        } else if problem.starts_with("invalid string") {
            path[at] = "json";
        }
    }
    let field = path.join(".");
    let mut details = ErrorDetails::new();
    let metadata = (!field.is_empty()).then(|| ("field".to_owned(), field.clone()));
    details.set_error_info(
        ErrorReason::Malformed.as_str_name(),
        ERROR_DOMAIN,
        metadata.into_iter().collect::<HashMap<_, _>>(),
    );
    let message = if field.is_empty() {
        format!("the request is not a message of the protocol: {problem}")
    } else {
        details.add_bad_request_violation(field.as_str(), problem);
        format!("{field}: {problem}")
    };
    Status::with_error_details(Code::InvalidArgument, message, details)
}
