//! The endings of files that agents work on.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Whether files end like that.
pub(super) fn is_ending(ending: &str) -> bool {
    const LONGEST: usize = 10;
    let mut lower = [0; LONGEST];
    let Some(lower) = lower.get_mut(..ending.len()) else { return false };
    lower.copy_from_slice(ending.as_bytes());
    lower.make_ascii_lowercase();
    ENDINGS.contains(&*lower)
}

static ENDINGS: LazyLock<HashSet<&[u8]>> =
    LazyLock::new(|| FILE_ENDINGS.split_whitespace().map(str::as_bytes).collect());

const FILE_ENDINGS: &str = "\
    rs py pyi ts tsx js jsx mjs cjs go java kt kts rb php c h cc cpp hpp cs swift scala clj ex exs erl hs ml \
    lua pl r jl dart zig vue svelte toml yaml yml json jsonl json5 md mdx rst txt sql sh bash zsh ps1 bat \
    css scss less html htm xml svg csv tsv lock proto graphql ini cfg conf config properties env tf tfvars \
    hcl gradle ipynb log png jpg jpeg gif webp pdf docx xlsx pptx parquet avro db sqlite patch diff tmpl j2 \
    hbs ejs tpl service pem crt key zip gz tar tgz zst wasm snap feature cmake mk nix plist rules bin dat \
    bak out";
