//! The infrastructure below all other layers: files, clocks, sockets and metrics.

pub mod clock;
pub mod fs;
pub mod in_place;
pub mod metrics;
pub mod net;
pub mod process;
pub mod secret;
