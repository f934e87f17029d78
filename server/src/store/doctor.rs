//! Checks a data directory.
