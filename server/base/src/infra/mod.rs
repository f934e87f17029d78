//! What the layers above stand on and that knows none of them: files, clocks and the metrics.

pub mod clock;
pub mod fs;
pub mod in_place;
pub mod metrics;
pub mod net;
pub mod process;
pub mod secret;
