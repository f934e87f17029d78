//! The `contextstore.v1` protocol: the types generated from the `.proto` files and their descriptors.
//!
//! The comments of the `.proto` files are the specification; a field without one does not compile. The features
//! `client` and `server` add the two sides of the service.

#![deny(missing_docs)]

#[cfg(any(feature = "client", feature = "server"))]
pub mod codec;
#[cfg(any(feature = "client", feature = "server"))]
mod lists;
mod names;

pub use names::Named;

/// Version 1. It only grows: what is retired is marked deprecated and keeps its number.
pub mod v1 {
    #[allow(
        clippy::allow_attributes_without_reason,
        clippy::large_enum_variant,
        reason = "generated code gives none, and has what the protocol has"
    )]
    mod generated {
        include!(concat!(env!("OUT_DIR"), "/contextstore.v1.rs"));
    }

    pub use generated::*;
}

/// The encoded `FileDescriptorSet` of every file of the protocol, comments included, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/contextstore.v1.binpb"));

/// The domain of every `google.rpc.ErrorInfo` of this service.
pub const ERROR_DOMAIN: &str = "contextstore";
