//! What the layers above stand on and that knows none of them: files and clocks.

pub mod clock;
pub mod fs;
