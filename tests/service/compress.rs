//! Contexts are kept small: on demand, by the agent itself, automatically, and back again, through the socket of a real
//! server. What a summary of an LLM does is in compress_faults.rs.

mod agent;
mod asked;
mod auto;
mod demand;
mod kept;
mod large;
mod smaller;
mod tried;
mod undo;
