//! The `contextstore.v1` protocol.

/// Version 1.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/contextstore.v1.rs"));
}
