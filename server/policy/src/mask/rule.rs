//! The built-in rules: their names, labels and descriptions.

/// Generates the enum of the rules and their table from one list, so that both are complete.
macro_rules! rules {
    ($($(#[$personal:ident])? $rule:ident $name:literal $label:literal $about:literal;)*) => {
        /// A built-in rule. Where two match at the same position, the first one names the match.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "`Rule::about` describes each rule")]
        pub enum Rule {
            $($rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$rule,)*];

            /// Returns the name in `masking.rules` and the metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }

            /// Returns the replacement of a match.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$rule => $label,)*
                }
            }

            /// Returns the description of the matches.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$rule => $about,)*
                }
            }

            /// Returns whether the rule matches personal data, and so is off by default.
            pub fn is_personal(self) -> bool {
                match self {
                    $(Self::$rule => rules!(@personal $($personal)?),)*
                }
            }
        }
    };
    (@personal personal) => { true };
    (@personal) => { false };
}

rules! {
    GithubToken "github_token" "[GITHUB_TOKEN]" "GitHub: `ghp_`, `ghs_`, `ghu_`, `ghr_`, `github_pat_`";
    GithubOauthToken "github_oauth_token" "[GITHUB_OAUTH_TOKEN]" "GitHub: `gho_`";
    GitlabToken "gitlab_token" "[GITLAB_TOKEN]" "GitLab: `glpat-`, `gldt-`, `glrt-`, `glcbt-`, `glptt-` and the like";
    OpenaiKey "openai_key" "[OPENAI_KEY]" "OpenAI and compatible providers: `sk-`, `sk-proj-`, `sk-svcacct-`, `sk-admin-`";
    AnthropicKey "anthropic_key" "[ANTHROPIC_KEY]" "Anthropic: `sk-ant-`";
    LlmKey "llm_key" "[LLM_KEY]" "other providers of models: OpenRouter, Groq, xAI, Perplexity, Hugging Face, Replicate, NVIDIA, Cerebras";
    AwsAccessKey "aws_access_key" "[AWS_ACCESS_KEY]" "AWS: `AKIA`, `ASIA`, `ABIA`, `ACCA` and 16 more; `ABSK` of Bedrock";
    AwsSecretKey "aws_secret_key" "[AWS_SECRET_KEY]" "AWS: 40 characters assigned to `secret_access_key`, `secret_key` or `Secret Access Key`";
    AwsSessionToken "aws_session_token" "[AWS_SESSION_TOKEN]" "AWS: a long value assigned to `session_token` or `Security-Token`";
    GoogleKey "google_key" "[GOOGLE_KEY]" "Google Cloud: API keys `AIza`, secrets of OAuth clients `GOCSPX-`";
    GoogleToken "google_token" "[GOOGLE_TOKEN]" "Google Cloud: access tokens `ya29.`, refresh tokens `1//0`";
    AzureKey "azure_key" "[AZURE_KEY]" "Azure: `AccountKey=`, `SharedAccessKey=`, `sig=` of a SAS, secrets of clients with `Q~`, keys with `JQQJ99`";
    SlackToken "slack_token" "[SLACK_TOKEN]" "Slack: `xoxb-`, `xoxp-`, `xoxa-`, `xoxr-`, `xoxs-`, `xoxc-`, `xoxd-`, `xoxe-`, `xapp-1-`";
    SlackWebhook "slack_webhook" "[SLACK_WEBHOOK]" "Slack: addresses of webhooks";
    StripeKey "stripe_key" "[STRIPE_KEY]" "Stripe: `sk_live_`, `sk_test_`, `rk_live_`, `rk_test_`, `whsec_`";
    NpmToken "npm_token" "[NPM_TOKEN]" "npm: `npm_`";
    PypiToken "pypi_token" "[PYPI_TOKEN]" "PyPI: `pypi-AgE`";
    ServiceToken "service_token" "[SERVICE_TOKEN]" "tokens of other services, by their prefix: Atlassian, Databricks, DigitalOcean, Docker, Figma, Grafana, Heroku, Linear, Notion, Postman, RubyGems, SendGrid, Sentry, Shopify, Supabase, Tailscale, Telegram, Vault";
    Jwt "jwt" "[JWT]" "JSON web tokens, signed or encrypted";
    PrivateKey "private_key" "[PRIVATE_KEY]" "private keys from `BEGIN` to `END`, also without an end (PEM, OpenSSH, PGP, SSH2), and those of age";
    Authorization "authorization" "[AUTHORIZATION]" "what follows `Authorization: Bearer`, `Basic` or `Token`";
    UrlPassword "url_password" "[URL_PASSWORD]" "the password in `scheme://user:password@host`";
    Password "password" "[PASSWORD]" "values assigned to names that end in `password`, `passwd`, `passphrase` or a word like `db_pass`, and to `Pwd` in connection strings; what follows `--password`, `login … password`, `curl -u user:` and `mysql -p`";
    Secret "secret" "[SECRET]" "long random values assigned to names that end in `secret`, `secret_key`, `secret_key_base`, `api_key`, `access_token`, `auth_token`, `refresh_token`, `private_token`, `_TOKEN`, `encryption_key`, `signing_key`, `client-key-data`; names with passwords in base64 behind `\"auth\"` and `_auth`";
    #[personal] Email "email" "[EMAIL]" "email addresses";
    #[personal] Ssn "ssn" "[SSN]" "US social security numbers with hyphens";
    #[personal] Phone "phone" "[PHONE]" "telephone numbers: `+` and the country, and US and Japanese ones with separators";
    #[personal] MyNumber "my_number" "[MY_NUMBER]" "Japanese individual numbers, by their check digit";
}

impl Rule {
    /// Returns the rule with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}
