//! Every call of the service does what its comment in the protocol says, through the socket of a real server.

mod disk;
mod facts;
mod follow;
mod history;
mod leases;
mod lifecycle;
mod media;
mod messages;
mod pipeline;
mod reasons;
mod requests;
mod retries;
mod tokens;
mod views;
