//! Lines with secrets of every kind, made from what vendors publish about their formats, and lines that only look like it.

use fastrand::Rng;

/// A line with a secret in it.
#[derive(Debug, Clone)]
pub(crate) struct Positive {
    pub(crate) line: String,
    /// What must not be left of it: the part that was drawn.
    pub(crate) secret: String,
    /// The rule that finds it.
    pub(crate) rule: &'static str,
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const DIGITS: &str = "0123456789";

fn draw(random: &mut Rng, of: &str, len: usize) -> String {
    let of = of.as_bytes();
    (0..len).map(|_| char::from(of[random.usize(..of.len())])).collect()
}

/// A token: what stands before the part that is drawn, and that.
type Form = (&'static str, &'static str, &'static str, usize);

/// Rule, prefix, alphabet and length.
const FORMS: &[Form] = &[
    ("github_token", "ghp_", ALNUM, 36),
    ("github_token", "ghs_", ALNUM, 36),
    ("github_token", "ghu_", ALNUM, 36),
    ("github_token", "ghr_", ALNUM, 76),
    ("github_oauth_token", "gho_", ALNUM, 36),
    ("gitlab_token", "glpat-", URL, 20),
    ("gitlab_token", "gldt-", URL, 20),
    ("gitlab_token", "glrt-", URL, 20),
    ("openai_key", "sk-", ALNUM, 48),
    ("openai_key", "sk-proj-", URL, 156),
    ("openai_key", "sk-svcacct-", URL, 150),
    ("openai_key", "sk-admin-", URL, 120),
    ("anthropic_key", "sk-ant-api03-", URL, 95),
    ("anthropic_key", "sk-ant-oat01-", URL, 95),
    ("llm_key", "sk-or-v1-", HEX, 64),
    ("llm_key", "gsk_", ALNUM, 52),
    ("llm_key", "xai-", ALNUM, 80),
    ("llm_key", "hf_", ALNUM, 34),
    ("aws_access_key", "AKIA", BASE32, 16),
    ("aws_access_key", "ASIA", BASE32, 16),
    ("google_key", "AIza", URL, 35),
    ("google_key", "GOCSPX-", URL, 28),
    ("google_token", "ya29.", URL, 160),
    ("slack_webhook", "https://hooks.slack.com/services/T00000000/B00000000/", ALNUM, 24),
    ("stripe_key", "sk_live_", ALNUM, 24),
    ("stripe_key", "rk_test_", ALNUM, 99),
    ("stripe_key", "whsec_", ALNUM, 32),
    ("npm_token", "npm_", ALNUM, 36),
    ("pypi_token", "pypi-AgEIcHlwaS5vcmc", URL, 150),
    ("service_token", "dop_v1_", HEX, 64),
    ("service_token", "shpat_", HEX, 32),
    ("service_token", "dckr_pat_", URL, 27),
    ("service_token", "hvs.", URL, 90),
    ("azure_key", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=", BASE64, 86),
    ("azure_key", "Endpoint=sb://x.example.net/;SharedAccessKey=", BASE64, 43),
    ("azure_key", "https://x.blob.example.net/c?sv=2024-01-01&sig=", ALNUM, 46),
    ("aws_secret_key", "aws_secret_access_key = ", BASE64, 40),
    ("aws_session_token", "aws_session_token=", BASE64, 300),
    ("authorization", "Authorization: Bearer ", ALNUM, 40),
    ("secret", "client_secret=Aa1", ALNUM, 40),
];

/// Where a token stands in a line.
fn around(random: &mut Rng, token: &str) -> String {
    match random.u8(..12) {
        0 => token.to_owned(),
        1 => format!("export TOKEN={token}"),
        2 => format!("{{\"value\": \"{token}\"}}"),
        3 => format!("the key is {token}, do not tell"),
        4 => format!("the key is {token}."),
        5 => format!("<td>{token}</td>"),
        6 => format!("{{\\\"value\\\":\\\"{token}\\\"}}"),
        7 => format!("first\\n{token}\\nlast"),
        8 => format!("キー「{token}」です"),
        9 => format!("\u{1b}[32m{token}\u{1b}[0m"),
        10 => format!("x='{token}';"),
        _ => format!("2026-01-01T00:00:00Z INFO [{token}] done"),
    }
}

/// At least 300 lines, of every kind several; the same for the same seed.
pub(crate) fn positives(seed: u64) -> Vec<Positive> {
    let mut random = Rng::with_seed(seed);
    let mut lines = Vec::new();
    for _ in 0..6 {
        for (rule, prefix, of, len) in FORMS {
            let secret = draw(&mut random, of, *len);
            let line = around(&mut random, &format!("{prefix}{secret}"));
            lines.push(Positive { line, secret, rule });
        }
        lines.extend(others(&mut random));
    }
    lines
}

fn others(random: &mut Rng) -> Vec<Positive> {
    let mut lines = Vec::new();
    let mut add = |rule, secret: &str, line: String| {
        lines.push(Positive { line, secret: secret.to_owned(), rule });
    };
    let secret = format!("{}_{}", draw(random, ALNUM, 22), draw(random, ALNUM, 59));
    add("github_token", &secret, around(random, &format!("github_pat_{secret}")));
    let secret = format!("{}T3BlbkFJ{}", draw(random, ALNUM, 20), draw(random, ALNUM, 20));
    add("openai_key", &secret, around(random, &format!("sk-{secret}")));
    for kind in ["xoxb", "xoxp"] {
        let secret = format!("{}-{}", draw(random, DIGITS, 12), draw(random, ALNUM, 24));
        add("slack_token", &secret, around(random, &format!("{kind}-{secret}")));
    }
    let secret =
        format!("1-A{}-{}-{}", draw(random, BASE32, 10), draw(random, DIGITS, 13), draw(random, HEX, 64));
    add("slack_token", &secret, around(random, &format!("xapp-{secret}")));
    let secret = draw(random, ALNUM, 34);
    add("azure_key", &secret, around(random, &format!("abC8Q~{secret}")));
    let (before, behind) = (draw(random, ALNUM, 52), draw(random, ALNUM, 26));
    add("azure_key", &before, around(random, &format!("{before}JQQJ99{behind}")));
    let parts = [draw(random, URL, 33), draw(random, URL, 200), draw(random, URL, 43)];
    add("jwt", &parts[1], around(random, &format!("eyJ{}.eyJ{}.{}", parts[0], parts[1], parts[2])));
    for (first, last) in [("RSA PRIVATE KEY", 25), ("OPENSSH PRIVATE KEY", 6), ("PGP PRIVATE KEY BLOCK", 60)]
    {
        let body: Vec<String> = (0..last).map(|_| draw(random, BASE64, 64)).collect();
        let key = format!("-----BEGIN {first}-----\n{}\nabc=\n-----END {first}-----", body.join("\n"));
        add("private_key", &body.join("\n"), key.clone());
        add("private_key", &body[1], format!("KEY=\"{}\"", key.replace('\n', "\\n")));
    }
    let secret = format!("{}9z!", draw(random, ALNUM, 12));
    add("url_password", &secret, format!("postgres://app:{secret}@db.example.net:5432/app?sslmode=require"));
    add("url_password", &secret, format!("redis://:{secret}@cache:6379/0"));
    for before in ["password=", "DB_PASSWORD=", "passwd: ", "--password=", "spring.datasource.password="] {
        let secret = format!("{}7x", draw(random, ALNUM, 12));
        add("password", &secret, format!("{before}{secret}"));
    }
    let secret = format!("{}#7x", draw(random, ALNUM, 12));
    add("password", &secret, format!("{{\"user\":\"me\",\"password\":\"{secret}\"}}"));
    add("password", &secret, format!("password = '{secret}'  # local only"));
    add("password", &secret, format!("Server=db;User Id=sa;Pwd={secret};"));
    lines.extend(printed(random));
    lines.extend(written(random));
    lines
}

/// As tools print them.
fn printed(random: &mut Rng) -> Vec<Positive> {
    let mut lines = Vec::new();
    let mut add = |rule, secret: &str, line: String| {
        lines.push(Positive { line, secret: secret.to_owned(), rule });
    };
    let secret = draw(random, ALNUM, 240);
    add(
        "aws_session_token",
        &secret,
        format!("https://b.s3.example.net/k?X-Amz-Security-Token=IQoJ%2F{secret}%3D&X-Amz-Date=1"),
    );
    let secret = draw(random, BASE64, 900);
    add("aws_session_token", &secret, format!("{{\"SessionToken\":\"{secret}\"}}"));
    let secret = draw(random, ALNUM, 44);
    add(
        "azure_key",
        &secret,
        format!("\"u\":\"https://x.example.net/c?sv=1\\u0026sig={secret}%3D\\u0026se=2\""),
    );
    let secret = draw(random, ALNUM, 20);
    let other = draw(random, ALNUM, 19);
    add("aws_secret_key", &secret, format!("\"SecretAccessKey\":\"{secret}\\/{other}\""));
    let secret = draw(random, BASE64, 40);
    add("aws_secret_key", &secret, format!("AWS Secret Access Key [None]: {secret}"));
    let secret = format!("{}9z", draw(random, ALNUM, 12));
    add("url_password", &secret, format!("\"postgres:\\/\\/app:{secret}@db.example.net\\/app\""));
    let secret = draw(random, ALNUM, 600);
    add("url_password", &secret, format!("https://me:{secret}@git.example.net/a.git"));
    let secret = format!("{}.{}", draw(random, URL, 22), draw(random, URL, 43));
    add("service_token", &secret, around(random, &format!("SG.{secret}")));
    for before in ["X-API-KEY: ", "X-Auth-Token: ", "\"AccessToken\":\"Aa1"] {
        let secret = format!("7aB2{}", draw(random, ALNUM, 32));
        add("secret", &secret, format!("{before}{secret}"));
    }
    for before in ["SECRET_KEY=", "secret_key_base: "] {
        let secret = draw(random, HEX, 64);
        add("secret", &secret, format!("{before}{secret}"));
    }
    lines
}

/// As people write them, in documents, shells and files of settings.
fn written(random: &mut Rng) -> Vec<Positive> {
    let mut lines = Vec::new();
    let mut add = |secret: &str, line: String| {
        lines.push(Positive { line, secret: secret.to_owned(), rule: "password" });
    };
    for (before, behind) in [
        ("**Password:** ", ""),
        ("**password**: ", ", as agreed"),
        ("- Password: `", "`"),
        ("<password>", "</password>"),
        ("mysqldump --password ", " app"),
        ("curl -s -u admin:", " https://x.example.net"),
        ("machine x.example.net login me password ", ""),
        ("password=ä", "ö"),
        ("\"password\": \"д", "\","),
    ] {
        let secret = format!("{}#7x", draw(random, ALNUM, 12));
        add(&secret, format!("{before}{secret}{behind}"));
    }
    for len in [300, 2_000] {
        let secret = format!("{}7x", draw(random, ALNUM, len));
        add(&secret, format!("password=\"{secret}\""));
        add(&secret, format!("password={secret}"));
    }
    let mut word = || draw(random, "bcdfghjklmnpqrstvwz", 9);
    let secret = [word(), word(), word(), word()].join(" ");
    add(&secret, format!("passphrase = \"{secret}\""));
    let secret = word() + &word();
    add(&secret, format!("DB_PASSWORD={secret}"));
    lines
}

const PLAIN: &[&str] = &[
    "The task-force met; its approach is risk-based, and disk-usage was fine.",
    "pip install sk-learn sk-image",
    "sk-learn-contrib-imbalanced-ensemble-methods-for-python",
    "desk-side-support-ticket-queue-2026-01-01-escalation",
    "password = os.environ[\"DB_PASSWORD\"]",
    "password = os.getenv('DB_PASSWORD', '')",
    "password = config.get(\"database\", \"password\")",
    "const password = req.body.password;",
    "let password: String = prompt(\"Password: \")?;",
    "password: str = Field(min_length=8)",
    "def login(user: str, password: str) -> bool:",
    "if (password !== confirmPassword) {",
    "password=args.password,",
    "connect(host=host, user=user, password=password)",
    "PASSWORD=$DB_PASSWORD",
    "PASSWORD=${DB_PASSWORD:-}",
    "DB_PASSWORD=",
    "MYSQL_ROOT_PASSWORD: \"{{ vault_root_password }}\"",
    "password: <your password here>",
    "password: ********",
    "Enter password: ",
    "The password must have 12 characters and one digit.",
    "Password: required, at least 8 characters",
    "Forgot your password? Reset it at https://example.com/reset?next=/home",
    "\"password\": {\"type\": \"string\", \"minLength\": 8}",
    "\"password\": \"string\"",
    "\"password\": null,",
    "<input type=\"password\" name=\"password\" placeholder=\"Password\">",
    "passwordHash: Buffer,",
    "password_reset_tokens table has 12 rows",
    "OPENAI_API_KEY is not set",
    "export OPENAI_API_KEY=",
    "api_key = os.environ[\"ANTHROPIC_API_KEY\"]",
    "apiKey: process.env.STRIPE_SECRET_KEY,",
    "secret: my-app-tls-certificate-2026",
    "secretKeyRef:",
    "client_secret=${CLIENT_SECRET}",
    "the access_token expires in 3600 seconds",
    "Authorization: Bearer <token>",
    "Authorization: Bearer ${TOKEN}",
    "curl -H \"Authorization: Bearer $TOKEN\" https://api.example.com/v1/models",
    "git clone git@github.com:owner/repository.git",
    "https://github.com/owner/repository/blob/main/src/lib.rs#L10",
    "http://localhost:8080/a:b@c/d",
    "postgres://localhost:5432/app",
    "postgres://user@localhost/app",
    "postgres://user:${PASSWORD}@localhost/app",
    "mongodb://<user>:<password>@host/db",
    "Commit by Jane Doe <jane.doe@example.com>",
    "mail to 123-45-6789 or +81 90-1234-5678, 1234 5678 9018",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n-----END CERTIFICATE-----",
    "Look for '-----BEGIN RSA PRIVATE KEY-----' in the first line of the file.",
    "ghp_ is the prefix of a token, github_pat_ of another",
    "glpat-your-token-goes-here",
    "xoxb-your-bot-token",
    "AKIA is the prefix of an access key",
    "eyJ is how JSON begins in base64: eyJhIjoxfQ==",
    "pub fn sk_live_mode(&self) -> bool { self.sk_test_mode }",
    "npm_config_registry=https://registry.npmjs.org/",
    "npm_package_dependencies_typescript_eslint_parser",
    "パスワードは8文字以上にしてください。",
    "/etc/passwd:1:root:x:0:0:root:/root:/bin/bash",
    "passwd:12:daemon:x:2:2:daemon:/sbin:/sbin/nologin",
    "deployment-ricplt-xapp-onboarder-f564f96dd-tn6kg",
    "SG.Framework.Extensions.DependencyInjection.Abstractions.Testing.Common2.Core",
    "the password: field is required",
    "password: string",
    "if password == other.password2 {",
    "\"password\": \"Please enter your password again\"",
    "\"password\": \"must have at least eight characters\"",
    "<password>string</password>",
    "<label for=\"password\">Password</label>",
    "--password string   Password for the registry",
    "docker login --username me --password-stdin registry2.example.net",
    "docker run -u 1000:1000 image",
    "curl -u $USER:$PASSWORD https://x.example.net",
    "login with a password 2 times",
    "**Password:** required",
    "ALLOW_EMPTY_PASSWORD=yes",
    "\"secret\": \"arn:aws:secretsmanager:us-east-1:123456789012:secret:MySecret-AbCdEf\"",
    "secret: projects/my-App-1/secrets/Key2/versions/3",
    "password=`pass show db/app2`",
    "\"password\": \"パスワード（8文字以上）\"",
    "\"password\": \"Пароль\"",
    "curl -s --user-agent=Foo:bar https://x.example.net",
    "curl -u username:password https://x.example.net",
    "SECOND_PASS=optimisation",
    "MASKED=[GITHUB_TOKEN] password=[PASSWORD] https://u:[URL_PASSWORD]@host/",
];

/// At least 300 lines with nothing to mask.
pub(crate) fn negatives(seed: u64) -> Vec<String> {
    // Not the characters of the secrets.
    let mut random = Rng::with_seed(!seed);
    let mut lines: Vec<String> = PLAIN.iter().map(|line| (*line).to_owned()).collect();
    for n in 0..30 {
        let mut draw = |of: &str, len: usize| draw(&mut random, of, len);
        let uuid = [8, 4, 4, 4, 12].map(|len| draw(HEX, len)).join("-");
        lines.push(format!("commit {}", draw(HEX, 40)));
        lines.push(format!("branch task-{} and disk-{}", draw(HEX, 40), draw(ALNUM, 48)));
        lines.push(format!("task {uuid} was started"));
        lines.push(format!("checksum = \"{}\"", draw(HEX, 64)));
        lines.push(format!("\"integrity\": \"sha512-{}==\",", draw(BASE64, 86)));
        lines.push(format!("![image](data:image/png;base64,iVBORw0KGgo{})", draw(BASE64, 600)));
        lines.push(format!("INFO request_id={uuid} took {n}ms, trace={}", draw(HEX, 32)));
        lines.push(format!("id: chatcmpl-{}, call_{}", draw(ALNUM, 29), draw(ALNUM, 24)));
        lines.push(format!("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{} me@host", draw(BASE64, 300)));
        lines.push(format!("https://cdn.example.com/assets/app.{}.js?v={}", draw(HEX, 20), draw(ALNUM, 32)));
    }
    lines
}
