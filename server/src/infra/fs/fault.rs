//! The real file system.
