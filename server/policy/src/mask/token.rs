//! Tokens with a prefix of their own: a prefix, then enough characters of a class. Lengths and alphabets are those that the
//! vendors publish, with room for longer ones, since tokens only grow.

use super::rule::Rule;
use super::window::{Class, Hit, Window, looks_random};

/// A form of token.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) rule: Rule,
    pub(super) prefix: &'static str,
    /// What stands behind the prefix, and how much of it at least.
    class: Class,
    least: usize,
    /// Most of it, where the length is fixed.
    most: usize,
    /// What belongs to the token once there is enough.
    rest: Class,
}

const ANY_LENGTH: usize = usize::MAX;

const fn of(rule: Rule, prefix: &'static str, class: Class, least: usize) -> Token {
    Token { rule, prefix, class, least, most: ANY_LENGTH, rest: class }
}

const fn exact(rule: Rule, prefix: &'static str, class: Class, length: usize, rest: Class) -> Token {
    Token { rule, prefix, class, least: length, most: length, rest }
}

/// The forms that are known.
pub(super) static TOKENS: &[Token] = &[
    of(Rule::GithubToken, "ghp_", Class::Alnum, 36),
    of(Rule::GithubToken, "ghu_", Class::Alnum, 36),
    of(Rule::GithubToken, "ghr_", Class::Alnum, 36),
    // Those of apps may be a JWT behind a number.
    of(Rule::GithubToken, "ghs_", Class::Dotted, 36),
    of(Rule::GithubToken, "github_pat_", Class::Word, 40),
    of(Rule::GithubOauthToken, "gho_", Class::Alnum, 36),
    of(Rule::GitlabToken, "glpat-", Class::Dotted, 20),
    of(Rule::GitlabToken, "gldt-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glrt-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glrtr-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glcbt-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glptt-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glft-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glimt-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glagent-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glsoat-", Class::Dotted, 20),
    of(Rule::GitlabToken, "gloas-", Class::Dotted, 20),
    of(Rule::GitlabToken, "glffct-", Class::Dotted, 20),
    // Without a word behind it, so no name of a package has as many letters and digits in a row.
    Token { rest: Class::Url, ..of(Rule::OpenaiKey, "sk-", Class::Alnum, 32) },
    of(Rule::OpenaiKey, "sk-proj-", Class::Url, 40),
    of(Rule::OpenaiKey, "sk-svcacct-", Class::Url, 40),
    of(Rule::OpenaiKey, "sk-service-", Class::Url, 40),
    of(Rule::OpenaiKey, "sk-admin-", Class::Url, 40),
    of(Rule::OpenaiKey, "sk-None-", Class::Url, 40),
    of(Rule::AnthropicKey, "sk-ant-", Class::Url, 32),
    of(Rule::LlmKey, "sk-or-v1-", Class::Hex, 32),
    of(Rule::LlmKey, "gsk_", Class::Alnum, 40),
    of(Rule::LlmKey, "xai-", Class::Alnum, 40),
    of(Rule::LlmKey, "pplx-", Class::Alnum, 40),
    of(Rule::LlmKey, "hf_", Class::Alnum, 30),
    of(Rule::LlmKey, "r8_", Class::Alnum, 36),
    of(Rule::LlmKey, "nvapi-", Class::Url, 40),
    of(Rule::LlmKey, "csk-", Class::Alnum, 40),
    exact(Rule::AwsAccessKey, "AKIA", Class::Base32, 16, Class::Alnum),
    exact(Rule::AwsAccessKey, "ASIA", Class::Base32, 16, Class::Alnum),
    exact(Rule::AwsAccessKey, "ABIA", Class::Base32, 16, Class::Alnum),
    exact(Rule::AwsAccessKey, "ACCA", Class::Base32, 16, Class::Alnum),
    of(Rule::AwsAccessKey, "ABSK", Class::Base64, 100),
    Token { most: 45, ..of(Rule::GoogleKey, "AIza", Class::Url, 35) },
    of(Rule::GoogleKey, "GOCSPX-", Class::Url, 24),
    of(Rule::GoogleToken, "ya29.", Class::Dotted, 30),
    of(Rule::GoogleToken, "1//0", Class::Url, 40),
    of(Rule::SlackToken, "xoxb-", Class::Url, 20),
    of(Rule::SlackToken, "xoxp-", Class::Url, 20),
    of(Rule::SlackToken, "xoxa-", Class::Url, 20),
    of(Rule::SlackToken, "xoxr-", Class::Url, 20),
    of(Rule::SlackToken, "xoxs-", Class::Url, 20),
    of(Rule::SlackToken, "xoxc-", Class::Url, 20),
    of(Rule::SlackToken, "xoxd-", Class::Any, 20),
    of(Rule::SlackToken, "xoxe-", Class::Url, 20),
    of(Rule::SlackToken, "xoxe.xoxb-", Class::Url, 20),
    of(Rule::SlackToken, "xoxe.xoxp-", Class::Url, 20),
    of(Rule::SlackToken, "xapp-1-A", Class::Url, 20),
    of(Rule::SlackWebhook, "hooks.slack.com/services/", Class::Base64, 20),
    of(Rule::SlackWebhook, "hooks.slack.com/workflows/", Class::Base64, 20),
    of(Rule::SlackWebhook, "hooks.slack.com/triggers/", Class::Base64, 20),
    of(Rule::StripeKey, "sk_live_", Class::Alnum, 16),
    of(Rule::StripeKey, "sk_test_", Class::Alnum, 16),
    of(Rule::StripeKey, "rk_live_", Class::Alnum, 16),
    of(Rule::StripeKey, "rk_test_", Class::Alnum, 16),
    of(Rule::StripeKey, "whsec_", Class::Base64, 24),
    of(Rule::NpmToken, "npm_", Class::Alnum, 36),
    of(Rule::PypiToken, "pypi-AgE", Class::Url, 50),
    of(Rule::PrivateKey, "AGE-SECRET-KEY-1", Class::Alnum, 50),
    of(Rule::ServiceToken, "ATATT3", Class::Any, 60),
    of(Rule::ServiceToken, "ATCTT3", Class::Any, 60),
    of(Rule::ServiceToken, "HRKU-", Class::Url, 36),
    of(Rule::ServiceToken, "PMAK-", Class::Url, 40),
    exact(Rule::ServiceToken, "dapi", Class::Hex, 32, Class::Alnum),
    of(Rule::ServiceToken, "dckr_oat_", Class::Url, 24),
    of(Rule::ServiceToken, "dckr_pat_", Class::Url, 24),
    of(Rule::ServiceToken, "doo_v1_", Class::Hex, 64),
    of(Rule::ServiceToken, "dop_v1_", Class::Hex, 64),
    of(Rule::ServiceToken, "dor_v1_", Class::Hex, 64),
    of(Rule::ServiceToken, "figd_", Class::Url, 36),
    of(Rule::ServiceToken, "glsa_", Class::Word, 32),
    of(Rule::ServiceToken, "hvb.", Class::Url, 24),
    of(Rule::ServiceToken, "hvs.", Class::Url, 24),
    of(Rule::ServiceToken, "lin_api_", Class::Alnum, 32),
    of(Rule::ServiceToken, "ntn_", Class::Alnum, 40),
    of(Rule::ServiceToken, "rubygems_", Class::Hex, 48),
    of(Rule::ServiceToken, "sb_secret_", Class::Url, 20),
    of(Rule::ServiceToken, "sbp_", Class::Hex, 40),
    of(Rule::ServiceToken, "shpat_", Class::Hex, 32),
    of(Rule::ServiceToken, "shpca_", Class::Hex, 32),
    of(Rule::ServiceToken, "shppa_", Class::Hex, 32),
    of(Rule::ServiceToken, "shpss_", Class::Hex, 32),
    of(Rule::ServiceToken, "sntrys_", Class::Any, 40),
    of(Rule::ServiceToken, "sntryu_", Class::Hex, 40),
    of(Rule::ServiceToken, "tskey-", Class::Url, 20),
];

impl Token {
    /// Whether one stands where the window's trigger, its prefix, does.
    pub(super) fn check(&self, window: &Window<'_>) -> Option<Hit> {
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
        // The full stop of a sentence is not the token's.
        let stops = window.bytes[begin..end].iter().rev().take_while(|byte| **byte == b'.').count();
        Some(if hit.tail.is_none() { Hit { end: end - stops, ..hit } } else { hit })
    }
}
