//! Prints the configuration: as YAML that can be used again, as JSON, and as reference documentation.

use std::fmt::Write;

use serde_json::{Value, json};

use super::keys::{KEYS, OTHER_VARIABLES};
use super::load::Setting;
use super::names;
use super::older::{GONE, RENAMED};

/// Returns a configuration file with the effective values; comments name the sources.
pub fn yaml(settings: &[Setting]) -> String {
    let mut sections: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for Setting { key, value, origin } in settings {
        let mut of: Vec<&str> = key.split('.').collect();
        let name = of.pop().unwrap_or_default();
        let same = of.iter().zip(&sections).take_while(|(of, open)| of == open).count();
        for (depth, section) in of.iter().enumerate().skip(same) {
            lines.push((format!("{}{section}:", "  ".repeat(depth)), String::new()));
        }
        lines.push((format!("{}{name}: {}", "  ".repeat(of.len()), value.yaml), format!("# {origin}")));
        sections = of;
    }
    // One long path must not push every comment to the right.
    let width = lines.iter().map(|(line, _)| line.chars().count()).filter(|width| *width <= 50).max();
    let width = width.unwrap_or_default();
    let line =
        |(line, comment): (String, String)| format!("{line:width$}  {comment}").trim_end().to_owned() + "\n";
    lines.into_iter().map(line).collect()
}

/// Returns the values as JSON: a list of objects with `key`, `value` and `from`.
pub fn json(settings: &[Setting]) -> Value {
    let entry = |Setting { key, value, origin }: &Setting| json!({ "key": key, "value": value.json, "from": origin.to_string() });
    settings.iter().map(entry).collect()
}

/// Returns `docs/CONFIG.md`: every key, and the ways to set it.
pub fn markdown() -> String {
    let mut out = INTRODUCTION.to_owned();
    let mut section = None;
    for key in KEYS {
        if section != Some(names::section_of(key)) {
            section = Some(names::section_of(key));
            let title = names::section_of(key).map_or("Top level".to_owned(), |name| format!("`{name}`"));
            let _ = writeln!(
                out,
                "\n### {title}\n\n| key | default | takes | since | |\n| --- | --- | --- | --- | --- |"
            );
        }
        let default = if key.default.is_empty() { "empty".to_owned() } else { format!("`{}`", key.default) };
        let _ = writeln!(
            out,
            "| `{}` | {default} | {} | {} | {} |",
            key.name,
            key.kind.range(),
            key.since,
            key.about
        );
    }
    out.push_str("\n## Other variables of the environment\n\n| variable | |\n| --- | --- |\n");
    for (name, about) in OTHER_VARIABLES {
        let _ = writeln!(out, "| `{name}` | {about} |");
    }
    out.push_str(RENAMED_INTRODUCTION);
    for (old, now) in RENAMED {
        let _ = writeln!(out, "| `{old}` | use `{now}` |");
    }
    for (old, why) in GONE {
        let _ = writeln!(out, "| `{old}` | {why} |");
    }
    out
}

const INTRODUCTION: &str = "\
# Configuration

<!-- Made by `contextstore config --markdown` from the tables in `server/src/config`; do not edit. -->

A server takes its configuration from four places; the later wins:

1. the defaults below
2. a YAML file: `--config FILE`, or the variable `CONTEXTSTORE_CONFIG`
3. the environment: `CONTEXTSTORE_` and the key in capitals, with two underscores for the dot:
   `CONTEXTSTORE_DATA_DIR`, `CONTEXTSTORE_LIMITS__MESSAGE_BYTES`
4. flags: `--data-dir`, `--listen` (again for each address), `--admin-listen`, `--tcp-auth`

`contextstore config` takes the same flags and prints every key with the value in force and where it comes from; what
it prints is itself a configuration file. `--output json` is for programs. If anything is wrong, it names everything
that is, and so does the server, which then does not start.

```yaml
data_dir: ${HOME}/contexts
listen:
  - unix:${HOME}/contextstore.sock
admin_listen: 127.0.0.1:9464
limits:
  message_bytes: 8MiB
  read_idle: 2m
log:
  format: json
```

- A key that is not in the tables below is an error, in the file and in the environment. So is a key that stands
  twice, a key without a value, and an empty variable.
- `${NAME}` in a value of the file or of the environment is the variable NAME; if that is not set, it is an error.
  `$${` is `${` itself.
- A size is a number of bytes, or has a unit: `B`, `KiB`, `MiB`, `GiB`, `TiB`. A time always has one: `ms`, `s`, `m`,
  `h`.
- A list in a variable is separated by commas; a map is written as `NAME=NUMBER,…` there.
- An address is `unix:PATH` (at most 107 bytes) or `tcp:HOST:PORT`, where HOST is an IP address of the loopback
  (`127.0.0.1`, `[::1]`) or `localhost`, and port 0 is any free one. Other addresses need TLS, which this version does
  not have.
- Variables that Kubernetes sets for a service of the name `contextstore` are passed over.

## Keys
";

const RENAMED_INTRODUCTION: &str = "
## Names of older designs

They are refused, in any section, with these words:

| name | |
| --- | --- |
";
