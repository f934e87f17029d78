//! Tokens with a prefix: the prefix, then enough characters of a class. Lengths and alphabets are those that the
//! vendors publish, with room for longer tokens, since tokens only grow.

use super::rule::Rule;
use super::window::{CharClass, Hit, TextWindow, looks_random};

/// A format of tokens.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) rule: Rule,
    pub(super) prefix: &'static str,
    /// The class and the fewest characters after the prefix.
    class: CharClass,
    least: usize,
    /// The most characters, where the length is fixed.
    most: usize,
    /// The class of further characters once there are enough.
    rest: CharClass,
}

const ANY_LENGTH: usize = usize::MAX;

const fn of(rule: Rule, prefix: &'static str, class: CharClass, least: usize) -> Token {
    Token { rule, prefix, class, least, most: ANY_LENGTH, rest: class }
}

const fn exact(rule: Rule, prefix: &'static str, class: CharClass, length: usize, rest: CharClass) -> Token {
    Token { rule, prefix, class, least: length, most: length, rest }
}

/// The known formats.
pub(super) static TOKENS: &[Token] = &[
    of(Rule::GithubToken, "ghp_", CharClass::Alnum, 36),
    of(Rule::GithubToken, "ghu_", CharClass::Alnum, 36),
    of(Rule::GithubToken, "ghr_", CharClass::Alnum, 36),
    // Tokens of apps may be a JWT after a number.
    of(Rule::GithubToken, "ghs_", CharClass::Dotted, 36),
    of(Rule::GithubToken, "github_pat_", CharClass::Word, 40),
    of(Rule::GithubOauthToken, "gho_", CharClass::Alnum, 36),
    of(Rule::GitlabToken, "glpat-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "gldt-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glrt-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glrtr-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glcbt-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glptt-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glft-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glimt-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glagent-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glsoat-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "gloas-", CharClass::Dotted, 20),
    of(Rule::GitlabToken, "glffct-", CharClass::Dotted, 20),
    // Without a word after the prefix, letters and digits only: no package name has as many in a row.
    Token { rest: CharClass::Url, ..of(Rule::OpenaiKey, "sk-", CharClass::Alnum, 32) },
    of(Rule::OpenaiKey, "sk-proj-", CharClass::Url, 40),
    of(Rule::OpenaiKey, "sk-svcacct-", CharClass::Url, 40),
    of(Rule::OpenaiKey, "sk-service-", CharClass::Url, 40),
    of(Rule::OpenaiKey, "sk-admin-", CharClass::Url, 40),
    of(Rule::OpenaiKey, "sk-None-", CharClass::Url, 40),
    of(Rule::AnthropicKey, "sk-ant-", CharClass::Url, 32),
    of(Rule::LlmKey, "sk-or-v1-", CharClass::Hex, 32),
    of(Rule::LlmKey, "gsk_", CharClass::Alnum, 40),
    of(Rule::LlmKey, "xai-", CharClass::Alnum, 40),
    of(Rule::LlmKey, "pplx-", CharClass::Alnum, 40),
    of(Rule::LlmKey, "hf_", CharClass::Alnum, 30),
    of(Rule::LlmKey, "r8_", CharClass::Alnum, 36),
    of(Rule::LlmKey, "nvapi-", CharClass::Url, 40),
    of(Rule::LlmKey, "csk-", CharClass::Alnum, 40),
    exact(Rule::AwsAccessKey, "AKIA", CharClass::Base32, 16, CharClass::Alnum),
    exact(Rule::AwsAccessKey, "ASIA", CharClass::Base32, 16, CharClass::Alnum),
    exact(Rule::AwsAccessKey, "ABIA", CharClass::Base32, 16, CharClass::Alnum),
    exact(Rule::AwsAccessKey, "ACCA", CharClass::Base32, 16, CharClass::Alnum),
    of(Rule::AwsAccessKey, "ABSK", CharClass::Base64, 100),
    Token { most: 45, ..of(Rule::GoogleKey, "AIza", CharClass::Url, 35) },
    of(Rule::GoogleKey, "GOCSPX-", CharClass::Url, 24),
    of(Rule::GoogleToken, "ya29.", CharClass::Dotted, 30),
    of(Rule::GoogleToken, "1//0", CharClass::Url, 40),
    of(Rule::SlackToken, "xoxb-", CharClass::Url, 20),
    of(Rule::SlackToken, "xoxp-", CharClass::Url, 20),
    of(Rule::SlackToken, "xoxa-", CharClass::Url, 20),
    of(Rule::SlackToken, "xoxr-", CharClass::Url, 20),
    of(Rule::SlackToken, "xoxs-", CharClass::Url, 20),
    of(Rule::SlackToken, "xoxc-", CharClass::Url, 20),
    of(Rule::SlackToken, "xoxd-", CharClass::Any, 20),
    of(Rule::SlackToken, "xoxe-", CharClass::Url, 20),
    of(Rule::SlackToken, "xoxe.xoxb-", CharClass::Url, 20),
    of(Rule::SlackToken, "xoxe.xoxp-", CharClass::Url, 20),
    of(Rule::SlackToken, "xapp-1-A", CharClass::Url, 20),
    of(Rule::SlackWebhook, "hooks.slack.com/services/", CharClass::Base64, 20),
    of(Rule::SlackWebhook, "hooks.slack.com/workflows/", CharClass::Base64, 20),
    of(Rule::SlackWebhook, "hooks.slack.com/triggers/", CharClass::Base64, 20),
    of(Rule::StripeKey, "sk_live_", CharClass::Alnum, 16),
    of(Rule::StripeKey, "sk_test_", CharClass::Alnum, 16),
    of(Rule::StripeKey, "rk_live_", CharClass::Alnum, 16),
    of(Rule::StripeKey, "rk_test_", CharClass::Alnum, 16),
    of(Rule::StripeKey, "whsec_", CharClass::Base64, 24),
    of(Rule::NpmToken, "npm_", CharClass::Alnum, 36),
    of(Rule::PypiToken, "pypi-AgE", CharClass::Url, 50),
    of(Rule::PrivateKey, "AGE-SECRET-KEY-1", CharClass::Alnum, 50),
    of(Rule::ServiceToken, "ATATT3", CharClass::Any, 60),
    of(Rule::ServiceToken, "ATCTT3", CharClass::Any, 60),
    of(Rule::ServiceToken, "HRKU-", CharClass::Url, 36),
    of(Rule::ServiceToken, "PMAK-", CharClass::Url, 40),
    exact(Rule::ServiceToken, "dapi", CharClass::Hex, 32, CharClass::Alnum),
    of(Rule::ServiceToken, "dckr_oat_", CharClass::Url, 24),
    of(Rule::ServiceToken, "dckr_pat_", CharClass::Url, 24),
    of(Rule::ServiceToken, "doo_v1_", CharClass::Hex, 64),
    of(Rule::ServiceToken, "dop_v1_", CharClass::Hex, 64),
    of(Rule::ServiceToken, "dor_v1_", CharClass::Hex, 64),
    of(Rule::ServiceToken, "figd_", CharClass::Url, 36),
    of(Rule::ServiceToken, "glsa_", CharClass::Word, 32),
    of(Rule::ServiceToken, "hvb.", CharClass::Url, 24),
    of(Rule::ServiceToken, "hvs.", CharClass::Url, 24),
    of(Rule::ServiceToken, "lin_api_", CharClass::Alnum, 32),
    of(Rule::ServiceToken, "ntn_", CharClass::Alnum, 40),
    of(Rule::ServiceToken, "rubygems_", CharClass::Hex, 48),
    of(Rule::ServiceToken, "sb_secret_", CharClass::Url, 20),
    of(Rule::ServiceToken, "sbp_", CharClass::Hex, 40),
    of(Rule::ServiceToken, "shpat_", CharClass::Hex, 32),
    of(Rule::ServiceToken, "shpca_", CharClass::Hex, 32),
    of(Rule::ServiceToken, "shppa_", CharClass::Hex, 32),
    of(Rule::ServiceToken, "shpss_", CharClass::Hex, 32),
    of(Rule::ServiceToken, "sntrys_", CharClass::Any, 40),
    of(Rule::ServiceToken, "sntryu_", CharClass::Hex, 40),
    of(Rule::ServiceToken, "tskey-", CharClass::Url, 20),
];

impl Token {
    /// Returns the token whose prefix triggered the rule, if there is one.
    pub(super) fn check(&self, window: &TextWindow<'_>) -> Option<Hit> {
        if !window.begins_word(window.at) {
            return None;
        }
        let begin = window.at + self.prefix.len();
        let end = window.run(begin, self.class);
        if end - begin < self.least || !looks_random(&window.bytes[begin..end], self.class) {
            return None;
        }
        let end = window.run(end, self.rest);
        if end - begin > self.most {
            return None;
        }
        let hit = window.hit(window.at, end, self.rest);
        // A full stop that ends the sentence is not part of the token.
        let stops = window.bytes[begin..end].iter().rev().take_while(|byte| **byte == b'.').count();
        Some(if hit.continuation.is_none() { Hit { end: end - stops, ..hit } } else { hit })
    }
}
