//! Compiles the protos with protox: no system protoc is needed.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/contextstore");
    let files = protox::compile(
        [
            "contextstore/v1/context_store.proto",
            "contextstore/v1/error_reason.proto",
            "contextstore/v1/message.proto",
            "contextstore/v1/task.proto",
            "contextstore/v1/tool_outputs.proto",
        ],
        ["proto"],
    )?;
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    #[expect(clippy::disallowed_methods, reason = "a build script writes where cargo tells it to")]
    fs::write(Path::new(&out).join("contextstore.v1.binpb"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::Codec")
        // Chunks of files are handed on without a copy.
        .bytes(".")
        .build_client(env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(env::var_os("CARGO_FEATURE_SERVER").is_some())
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}
