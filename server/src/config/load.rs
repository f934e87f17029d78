//! Layers the sources of the configuration: defaults, file, environment, flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Origin, Problem};
use super::file::{self, Given};
use super::keys::{KEYS, Key, OTHER_VARIABLES};
use super::listen::Listen;
use super::value::{Raw, Shown};
use super::{Config, TcpAuth, names};
use crate::telemetry::FILTER_VARIABLE;

const CONFIG_VARIABLE: &str = "CONTEXTSTORE_CONFIG";

/// The flags of the command line. Unset and empty flags have no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--config`: the file.
    pub config: Option<PathBuf>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
    /// `--listen`, each time it was given.
    pub listen: Vec<Listen>,
    /// `--admin-listen`
    pub admin_listen: Option<SocketAddr>,
    /// `--tcp-auth`
    pub tcp_auth: Option<TcpAuth>,
}

/// A key with its effective value.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: Shown,
    /// The source of the value.
    pub origin: Origin,
}

impl Config {
    /// Returns the configuration for an environment, and the source of each value.
    pub fn load_with(
        flags: &Flags,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<(Self, Vec<Setting>), ConfigError> {
        let environment: BTreeMap<_, _> = environment.into_iter().collect();
        let mut layers =
            Layers { config: Self::blank(), settings: BTreeMap::new(), problems: Vec::new(), environment };
        layers.defaults();
        if let Some(path) = layers.file_path(flags) {
            layers.file(&path);
        }
        layers.environment();
        layers.flags(flags);
        layers.check_together();
        let Layers { config, settings, problems, .. } = layers;
        if problems.is_empty() {
            Ok((config, settings.into_values().collect()))
        } else {
            Err(ConfigError { problems })
        }
    }
}

struct Layers {
    config: Config,
    /// Indexed like the table of keys.
    settings: BTreeMap<usize, Setting>,
    problems: Vec<Problem>,
    environment: BTreeMap<OsString, OsString>,
}

impl Layers {
    fn defaults(&mut self) {
        for (at, key) in KEYS.iter().enumerate() {
            self.take(at, &Raw::Text(key.default.to_owned()), Origin::Default);
        }
    }

    fn file_path(&mut self, flags: &Flags) -> Option<PathBuf> {
        if flags.config.is_some() {
            return flags.config.clone();
        }
        let set = self.environment.get(&OsString::from(CONFIG_VARIABLE))?.clone();
        if set.is_empty() {
            self.wrong(
                Origin::Environment(CONFIG_VARIABLE.to_owned()),
                "config",
                "is empty: unset it, or name a file",
            );
            return None;
        }
        Some(set.into())
    }

    fn file(&mut self, path: &Path) {
        let entries = match file::read(path) {
            Ok(entries) => entries,
            Err(problem) => return self.problems.push(problem),
        };
        let mut tables: BTreeMap<usize, (u64, Vec<String>)> = BTreeMap::new();
        for file::Entry { key, line, value } in entries {
            let origin = Origin::File { path: path.to_owned(), line };
            if let Some((at, name)) = names::find_in_table(&key) {
                let Given::Value(Raw::Plain(text) | Raw::Text(text)) = value else {
                    self.wrong(origin, KEYS[at].name, &format!("has {name:?} without one value"));
                    continue;
                };
                tables.entry(at).or_insert((line, Vec::new())).1.push(format!("{name}={text}"));
                continue;
            }
            match (names::find(&key), value) {
                (Some(at), Given::Value(raw)) => self.take_expanded(at, raw, origin),
                (Some(_), Given::Nothing) => {
                    self.wrong(origin, &key, "has no value: remove the line, or give it one")
                }
                (Some(_), Given::Nested) => self.wrong(origin, &key, "must be a list of texts"),
                (None, Given::Nothing) if names::is_section(&key) => {}
                (None, Given::Value(_) | Given::Nested) if names::is_section(&key) => {
                    self.wrong(origin, &key, "is a section: its keys stand below it, indented");
                }
                (None, Given::Value(_) | Given::Nested | Given::Nothing) => {
                    self.problems.push(names::unknown_key(origin, &key));
                }
            }
        }
        for (at, (line, items)) in tables {
            self.take_expanded(at, Raw::List(items), Origin::File { path: path.to_owned(), line });
        }
    }

    fn environment(&mut self) {
        let ours: Vec<(String, OsString)> = self
            .environment
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.clone())))
            .filter(|(name, _)| name.starts_with(names::PREFIX))
            .collect();
        for (name, value) in &ours {
            let key = names::key_of(name);
            let is_other = OTHER_VARIABLES.iter().any(|(other, _)| other == name);
            if let Some(at) = key {
                self.variable(at, name, value);
            } else if !is_other && !names::is_of_kubernetes(name, &value.to_string_lossy()) {
                self.problems.push(names::unknown_variable(name));
            }
        }
        // Flags come last, because they take precedence over variables.
        let filter = ours.iter().find(|(name, _)| name == FILTER_VARIABLE);
        if let (Some((name, value)), Some(at)) = (filter, names::find("log.level")) {
            self.variable(at, name, value);
        }
    }

    fn variable(&mut self, at: usize, name: &str, value: &OsString) {
        let origin = Origin::Environment(name.to_owned());
        match value.to_str() {
            None => self.wrong(origin, KEYS[at].name, "is not UTF-8"),
            Some("") => self.wrong(origin, KEYS[at].name, "is empty: unset it, or give it a value"),
            Some(text) => self.take_expanded(at, Raw::Text(text.to_owned()), origin),
        }
    }

    fn flags(&mut self, flags: &Flags) {
        let Flags { config: _, data_dir, listen, admin_listen, tcp_auth } = flags;
        if let Some(path) = data_dir {
            self.flag("data_dir", "--data-dir", &Raw::Path(path.clone()));
        }
        if !listen.is_empty() {
            self.flag("listen", "--listen", &Raw::List(listen.iter().map(Listen::to_string).collect()));
        }
        if let Some(address) = admin_listen {
            self.flag("admin_listen", "--admin-listen", &Raw::Text(address.to_string()));
        }
        if let Some(auth) = tcp_auth {
            self.flag("tcp_auth", "--tcp-auth", &Raw::Text(auth.as_str().to_owned()));
        }
    }

    fn flag(&mut self, key: &str, flag: &'static str, raw: &Raw) {
        if let Some(at) = names::find(key) {
            self.take(at, raw, Origin::Flag(flag));
        }
    }

    fn take_expanded(&mut self, at: usize, raw: Raw, origin: Origin) {
        let lookup = |name: &str| self.environment.get(&OsString::from(name))?.clone().into_string().ok();
        let expand = |text: String| file::expand(&text, lookup);
        let expanded = match raw {
            Raw::Text(text) => expand(text).map(Raw::Text),
            Raw::List(items) => items.into_iter().map(expand).collect::<Result<_, _>>().map(Raw::List),
            Raw::Plain(_) | Raw::Path(_) => Ok(raw),
        };
        match expanded {
            Ok(raw) => self.take(at, &raw, origin),
            Err(problem) => self.wrong(origin, KEYS[at].name, &problem),
        }
    }

    fn take(&mut self, at: usize, raw: &Raw, origin: Origin) {
        let Key { name, kind, .. } = &KEYS[at];
        match kind.take(&mut self.config, raw) {
            Ok(value) => {
                self.settings.insert(at, Setting { key: name, value, origin });
            }
            Err(problem) => self.wrong(origin, name, &problem),
        }
    }

    /// Checks rules that involve more than one key.
    fn check_together(&mut self) {
        if self.config.limits.bytes_in_flight < self.config.limits.message_bytes {
            let problem = "must be at least limits.message_bytes: the largest message could never be sent";
            self.wrong_together("limits.bytes_in_flight", problem);
        }
        let breaker = &self.config.compression.breaker;
        if breaker.longest < breaker.pause {
            self.wrong_together("compression.breaker.longest", "must be at least compression.breaker.pause");
        }
        let outputs = &self.config.context.outputs;
        if outputs.tail_bytes > outputs.max_message_bytes.map(|bytes| bytes / 2) {
            let problem = "must be at most half of outputs.max_message_bytes";
            self.wrong_together("outputs.tail_bytes", problem);
        }
        if let Some((key, problem)) = self.config.masking.check() {
            self.wrong_together(key, &problem);
        }
        if self.config.listen.is_empty() {
            for listen in self.config.listeners() {
                if let Err(error) = listen.check() {
                    self.wrong_together("data_dir", &format!("{error}; set a shorter one, or listen"));
                }
            }
        }
    }

    fn wrong_together(&mut self, key: &str, problem: &str) {
        let setting = names::find(key).and_then(|at| self.settings.get(&at));
        let origin = setting.map_or(Origin::Default, |setting| setting.origin.clone());
        self.wrong(origin, key, problem);
    }

    fn wrong(&mut self, origin: Origin, key: &str, problem: &str) {
        self.problems.push(Problem::Value { origin, key: key.to_owned(), problem: problem.to_owned() });
    }
}
