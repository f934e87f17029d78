//! What each strategy keeps.

use std::sync::Arc;

use super::*;
use crate::context::{Scoring, ServerPolicy};
use crate::model::TaskConfig;

fn policy(json: &str) -> Policy {
    let config: TaskConfig = serde_json::from_str(json).unwrap();
    Policy::resolve(None, &config, &ServerPolicy::default())
}

/// Groups of a given role, messages and tokens, one behind the other.
fn groups(all: &[(Role, u64, u64)]) -> Vec<Group> {
    let mut first = 0;
    let mut made = Vec::new();
    for (role, messages, tokens) in all {
        made.push(Group {
            first,
            messages: *messages,
            tokens: *tokens,
            least: *tokens,
            role: *role,
            kind: None,
            content: 0.0,
        });
        first += messages;
    }
    made
}

fn choose(policy: &Policy, strategy: Strategy, goal: u64, groups: &[Group], fixed: u64) -> Choice {
    let messages = groups.iter().map(|group| group.messages).sum();
    let mut chooser = chooser(policy, strategy, Whole { messages, goal });
    groups.iter().for_each(|group| chooser.look(group));
    let current_request =
        groups.iter().rfind(|group| group.role == Role::User && group.kind.is_none()).copied();
    chooser.choose(&Staying { tokens: fixed, current_request, has_open_calls: false })
}

/// Ranges as they are written, apart by spaces.
fn ranges(text: &str) -> Vec<Range<u64>> {
    let range =
        |text: &str| text.split_once("..").map(|(from, to)| from.parse().unwrap()..to.parse().unwrap());
    text.split_whitespace().map(|text| range(text).unwrap()).collect()
}

const USER: (Role, u64, u64) = (Role::User, 1, 10);
const CALLS: (Role, u64, u64) = (Role::Assistant, 3, 60);

#[test]
fn summarize_keeps_the_last_messages_in_whole_groups() {
    let policy = policy(r#"{"context_length":1000,"compression":{"keep_recent_messages":2}}"#);
    let all = groups(&[USER, CALLS, USER, CALLS]);
    let choice = choose(&policy, Strategy::Summarize, 700, &all, 0);
    assert_eq!(choice, Choice { keep: ranges("4..8"), gone: Gone::Summary });
    let all = groups(&[USER, CALLS, USER, CALLS, USER]);
    assert_eq!(choose(&policy, Strategy::Summarize, 700, &all, 0).keep, ranges("5..9"));
    let none = self::policy(r#"{"compression":{"keep_recent_messages":0}}"#);
    assert_eq!(choose(&none, Strategy::Summarize, 700, &all, 0).keep, ranges("8..9"));
}

#[test]
fn window_keeps_what_fits_at_the_end_and_the_newest_group_always() {
    let all = groups(&[USER, CALLS, USER, CALLS, USER]);
    // What is missing is said in the same window.
    let tokens = 80 + NOTE;
    let by_tokens = policy(&format!(r#"{{"context_length":1000,"window":{{"tokens":{tokens}}}}}"#));
    assert_eq!(choose(&by_tokens, Strategy::Window, 700, &all, 0).keep, ranges("4..9"));
    assert_eq!(choose(&by_tokens, Strategy::Window, 700, &all, 60).keep, ranges("8..9"));
    let by_messages = policy(r#"{"context_length":1000,"window":{"messages":3}}"#);
    assert_eq!(choose(&by_messages, Strategy::Window, 700, &all, 0).keep, ranges("5..9"));
    let small = policy(r#"{"context_length":1000,"window":{"tokens":5}}"#);
    let choice = choose(&small, Strategy::Window, 700, &all, 0);
    assert_eq!(choice, Choice { keep: ranges("8..9"), gone: Gone::Note });
}

#[test]
fn compact_keeps_the_last_turns_and_what_was_asked_in_those_that_are_too_long() {
    let policy = policy(r#"{"context_length":1000,"compression":{"retain_last_turns":1}}"#);
    let all = groups(&[USER, CALLS, USER, CALLS, CALLS]);
    assert_eq!(choose(&policy, Strategy::Compact, 700, &all, 0).keep, ranges("4..11"));
    // Half of the goal is for turns: the first calls of the last one go, its question stays.
    assert_eq!(choose(&policy, Strategy::Compact, 200, &all, 0).keep, ranges("4..5 8..11"));
    let two = self::policy(r#"{"context_length":1000,"compression":{"retain_last_turns":2}}"#);
    assert_eq!(choose(&two, Strategy::Compact, 700, &all, 0).keep, ranges("0..11"));
    // The turn began with what was summarised before.
    assert_eq!(choose(&policy, Strategy::Compact, 700, &groups(&[CALLS, CALLS]), 0).keep, ranges("0..6"));
}

/// A long result that says what failed counts more than short chatter, unless density is what counts.
#[test]
fn prune_ranks_by_score() {
    const CHATTER: (Role, u64, u64) = (Role::Assistant, 1, 30);
    let mut all =
        groups(&[USER, (Role::Assistant, 2, 2000), CHATTER, CHATTER, CHATTER, CHATTER, USER, CALLS]);
    all[1].content = 0.85;
    let goal = 10 + 10 + 60 + 2000 + 6 * NOTE;
    let by_score = policy(r#"{"context_length":10000}"#);
    let kept = choose(&by_score, Strategy::Prune, goal, &all, 0).keep;
    assert!(kept.iter().any(|places| places.contains(&1)), "{kept:?}");
    let scoring = Scoring { rank: Rank::Density, ..Scoring::default() };
    let by_density = Policy { scoring: Arc::new(scoring), ..by_score };
    let kept = choose(&by_density, Strategy::Prune, goal, &all, 0).keep;
    assert!(kept.iter().all(|places| !places.contains(&1)), "{kept:?}");
}

#[test]
fn prune_keeps_the_best_within_its_goal() {
    let policy = policy(r#"{"context_length":1000}"#);
    let mut all = groups(&[USER, CALLS, CALLS, USER, CALLS]);
    // What counts for its content goes before what is only newer.
    all[1].content = 1.0;
    // With a note before, between and behind them.
    let goal = 80 + 3 * NOTE;
    let choice = choose(&policy, Strategy::Prune, goal, &all, 0);
    // The last calls have not been answered yet: they stay, whatever they count.
    assert_eq!(choice, Choice { keep: ranges("0..1 7..11"), gone: Gone::Gaps });
    let answered = groups(&[USER, CALLS, CALLS, USER, CALLS, USER]);
    let last = choose(&policy, Strategy::Prune, 1, &answered, 0);
    assert_eq!(last.keep.last().unwrap().end, 12);
    assert_eq!(choose(&policy, Strategy::Prune, 1000, &all, 0).keep, ranges("0..11"));
}

#[test]
fn keywords_tool_outputs_and_length_count() {
    let policy = policy("{}");
    let keywords = Keywords::new(&policy.scoring);
    let near = |score: f64, expected: f64| assert!((score - expected).abs() < 1e-9, "{score} {expected}");
    near(keywords.score(Role::User, "nothing of note stands here"), 0.0);
    near(keywords.score(Role::User, "an ERROR in the build of today"), 0.3);
    near(keywords.score(Role::User, "ビルドでエラーが出ているので直してください"), 0.3);
    near(keywords.score(Role::Tool, "the build has FAILED in the end"), 0.55);
    near(keywords.score(Role::User, "error"), 0.3 * 0.7);
    near(keywords.score(Role::Tool, "[SYSTEM: approval] [Tool: x] error"), 1.0);
}
