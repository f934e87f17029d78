//! Configurations from given files and environments. Here is what the tests share.

mod fields;
mod refused;
mod sources;

use std::ffi::OsString;
use std::io::Write;

use super::*;

type Loaded = Result<(Config, Vec<Setting>), ConfigError>;

fn load(flags: Flags, yaml: &str, environment: &[(&str, &str)]) -> Loaded {
    let mut file = tempfile::Builder::new().prefix("contextstore").suffix(".yaml").tempfile().unwrap();
    file.write_all(yaml.as_bytes()).unwrap();
    let flags = Flags { config: Some(file.path().to_owned()), ..flags };
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Config::load_with(&flags, environment)
}

fn defaults() -> Config {
    Config::load_with(&Flags::default(), []).unwrap().0
}

fn from_yaml(yaml: &str) -> Config {
    load(Flags::default(), yaml, &[]).unwrap().0
}

/// The words for everything that is wrong, without the name of the file.
fn problems(loaded: Loaded) -> Vec<String> {
    let error = loaded.expect_err("it should be refused");
    let words = |problem: &Problem| {
        let words = problem.to_string();
        words.split_once(".yaml").map_or(words.clone(), |(_, rest)| rest.trim_start_matches(": ").to_owned())
    };
    error.problems.iter().map(words).collect()
}

fn wrong_in_file(yaml: &str) -> String {
    let mut problems = problems(load(Flags::default(), yaml, &[]));
    assert_eq!(problems.len(), 1, "{yaml}: {problems:?}");
    problems.remove(0)
}

fn wrong_in_environment(name: &str, value: &str) -> String {
    let mut problems = problems(load(Flags::default(), "", &[(name, value)]));
    assert_eq!(problems.len(), 1, "{name}={value}: {problems:?}");
    problems.remove(0)
}

fn setting(settings: &[Setting], key: &str) -> (String, Origin) {
    let setting = settings.iter().find(|setting| setting.key == key).unwrap();
    (setting.value.yaml.clone(), setting.origin.clone())
}

fn wrong_with(environment: &[(&str, &str)], value: &str) -> String {
    problems(load(Flags::default(), &format!("data_dir: '{value}'"), environment)).remove(0)
}
