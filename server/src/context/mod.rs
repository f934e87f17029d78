//! Pure policy about contexts: how many tokens a message has, how full a context is. No I/O.

mod pressure;
mod tokens;

pub use pressure::{CompressionPolicy, LimitSource, Pressure, Stage, Strategy};
pub use tokens::count_tokens;
