//! Compiles the protos with protox: no system protoc is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/contextstore");
    let files = protox::compile(["contextstore/v1/error_reason.proto"], ["proto"])?;
    prost_build::Config::new().compile_fds(files)?;
    Ok(())
}
