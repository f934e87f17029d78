//! The outputs of tools through a real server: kept whole, shown in part, read and searched, whatever becomes of the task.

#[path = "outputs/garbage.rs"]
mod garbage;
#[path = "outputs/put.rs"]
mod put;
#[path = "outputs/said.rs"]
mod said;
#[path = "outputs/search.rs"]
mod search;
#[path = "outputs/secrets.rs"]
mod secrets;
#[path = "outputs/stays.rs"]
mod stays;
