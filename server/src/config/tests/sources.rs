//! Where values come from: flags, environment, file, and variables in values.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let yaml = "data_dir: of-file\nlisten: [tcp:127.0.0.1:1]\nlimits:\n  connections: 5\n  open_tasks: 6\n";
    let environment = [("CONTEXTSTORE_DATA_DIR", "of-env"), ("CONTEXTSTORE_LIMITS__CONNECTIONS", "7")];
    let (config, settings) = load(Flags::default(), yaml, &environment).unwrap();
    assert_eq!((config.data_dir, config.limits.connections), ("of-env".into(), 7));
    assert_eq!(config.limits.open_tasks, 6);
    let (value, origin) = setting(&settings, "limits.open_tasks");
    assert_eq!(value, "6");
    assert!(matches!(&origin, Origin::File { line: 5, .. }), "{origin:?}");
    assert!(origin.to_string().ends_with(".yaml:5"), "{origin}");
    let (_, origin) = setting(&settings, "limits.connections");
    assert_eq!(origin, Origin::Environment("CONTEXTSTORE_LIMITS__CONNECTIONS".to_owned()));
    assert_eq!(setting(&settings, "lease.ttl"), ("30s".to_owned(), Origin::Default));

    let flags = Flags {
        config: None,
        data_dir: Some("of-flag".into()),
        listen: vec![Listen::Unix("s".into()), Listen::Tcp("127.0.0.1:2".parse().unwrap())],
        admin_listen: Some("127.0.0.1:3".parse().unwrap()),
        tcp_auth: Some(TcpAuth::None),
    };
    let (config, settings) = load(flags.clone(), yaml, &environment).unwrap();
    assert_eq!(config.data_dir, PathBuf::from("of-flag"));
    assert_eq!(config.listen, flags.listen);
    assert_eq!((config.admin_listen, config.tcp_auth), (flags.admin_listen, TcpAuth::None));
    for (key, flag) in [
        ("data_dir", "--data-dir"),
        ("listen", "--listen"),
        ("admin_listen", "--admin-listen"),
        ("tcp_auth", "--tcp-auth"),
    ] {
        assert_eq!(setting(&settings, key).1, Origin::Flag(flag));
    }
}

#[test]
fn the_file_can_be_named_by_the_environment_and_the_flag_wins() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"data_dir: of-env-file").unwrap();
    let environment = || [("CONTEXTSTORE_CONFIG".into(), file.path().as_os_str().to_owned())];
    let (config, _) = Config::load_with(&Flags::default(), environment()).unwrap();
    assert_eq!(config.data_dir, PathBuf::from("of-env-file"));
    let missing = Flags { config: Some("gone/contextstore.yaml".into()), ..Flags::default() };
    let error = Config::load_with(&missing, environment()).unwrap_err().to_string();
    assert!(
        error.starts_with("configuration: gone/contextstore.yaml: cannot be read: No such file"),
        "{error}"
    );
    let empty = [("CONTEXTSTORE_CONFIG".into(), OsString::new())];
    let error = Config::load_with(&Flags::default(), empty).unwrap_err().to_string();
    assert!(error.contains("CONTEXTSTORE_CONFIG: config is empty"), "{error}");
}

#[test]
fn a_path_need_not_be_text() {
    let path = OsStr::from_bytes(b"odd-\xff");
    let flags = Flags { data_dir: Some(path.into()), ..Flags::default() };
    assert_eq!(load(flags, "", &[]).unwrap().0.data_dir, PathBuf::from(path));
    let environment = [("CONTEXTSTORE_DATA_DIR".into(), path.to_owned())];
    let error = Config::load_with(&Flags::default(), environment).unwrap_err().to_string();
    assert_eq!(error, "configuration: CONTEXTSTORE_DATA_DIR: data_dir is not UTF-8");
}

#[test]
fn other_variables_are_passed_over() {
    let environment = [
        ("CONTEXTSTORE_TOKEN", "secret"),
        ("CONTEXTSTORE_TOKEN_FILE", "f"),
        ("CONTEXTSTORE_ADDRESS", "unix:x"),
        ("CONTEXT_STORAGE_BASE_DIR", "x"),
        ("HOME", "/root"),
        // Of a Kubernetes service named contextstore, and of one named contextstore-admin.
        ("CONTEXTSTORE_SERVICE_HOST", "10.0.0.1"),
        ("CONTEXTSTORE_SERVICE_PORT", "50551"),
        ("CONTEXTSTORE_SERVICE_PORT_GRPC", "50551"),
        ("CONTEXTSTORE_PORT", "tcp://10.0.0.1:50551"),
        ("CONTEXTSTORE_PORT_50551_TCP", "tcp://10.0.0.1:50551"),
        ("CONTEXTSTORE_PORT_50551_TCP_ADDR", "10.0.0.1"),
        ("CONTEXTSTORE_ADMIN_SERVICE_HOST", "10.0.0.1"),
        ("CONTEXTSTORE_ADMIN_PORT", "tcp://10.0.0.1:9464"),
    ];
    assert_eq!(load(Flags::default(), "", &environment).unwrap().0, defaults());
    let words = wrong_in_environment("CONTEXTSTORE_PORT", "50551");
    assert_eq!(words, "CONTEXTSTORE_PORT: there is no key port");
}

#[test]
fn the_filter_of_the_log_has_a_variable_that_wins() {
    let environment = [("CONTEXTSTORE_LOG", "debug"), ("CONTEXTSTORE_LOG__LEVEL", "warn")];
    let (config, settings) = load(Flags::default(), "log: {level: error}", &environment).unwrap();
    assert_eq!(config.log.level, "debug");
    let (_, origin) = setting(&settings, "log.level");
    assert_eq!(origin, Origin::Environment("CONTEXTSTORE_LOG".to_owned()));
    let words = wrong_in_environment("CONTEXTSTORE_LOG", "inof");
    assert!(
        words.starts_with("CONTEXTSTORE_LOG: log.level cannot be read: \"inof\" is neither a level"),
        "{words}"
    );
}

#[test]
fn variables_in_values_are_put_in() {
    let environment = [
        ("ROOT", "/srv"),
        ("NAME", "a${ROOT}"),
        ("CONTEXTSTORE_LIMITS__OPEN_TASKS", "${COUNT}"),
        ("COUNT", "12"),
    ];
    let dir = |value: &str| {
        let loaded = load(Flags::default(), &format!("data_dir: '{value}'"), &environment);
        loaded.map(|(config, _)| (config.data_dir.display().to_string(), config.limits.open_tasks))
    };
    for (value, expected) in [
        ("${ROOT}/x", "/srv/x"),
        ("${ROOT}${ROOT}", "/srv/srv"),
        ("${NAME}", "a${ROOT}"),
        ("$${ROOT}/$$/$HOME", "${ROOT}/$$/$HOME"),
        ("$$${ROOT}", "$${ROOT}"),
    ] {
        assert_eq!(dir(value), Ok((expected.to_owned(), 12)), "{value}");
    }
    for (value, words) in [
        ("${GONE}/x", "needs the variable GONE, which is not set (or not UTF-8)"),
        ("${ROOT", "has ${ without }; write $${ where ${ itself is meant"),
        ("${}", "has ${}, and \"\" is no name of a variable"),
        ("${ROOT:-x}", "has ${ROOT:-x}, and \"ROOT:-x\" is no name of a variable"),
    ] {
        assert_eq!(wrong_with(&environment, value), format!(":1: data_dir {words}"));
    }
    // The value of a variable is never YAML.
    let environment = [("X", "1, tcp_auth: none")];
    let (config, _) = load(Flags::default(), "data_dir: ${X}", &environment).unwrap();
    assert_eq!(config.data_dir, PathBuf::from("1, tcp_auth: none"));
}
