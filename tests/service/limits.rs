//! The limits of a server: what is over one is refused clearly, and what is not goes on.

mod crowd;
mod quotas;
mod sizes;
