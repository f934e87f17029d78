//! What several tests of this layer need.

use crate::context::{LimitSource, Policy, Scoring, Strategy, Summarizer};
use crate::infra::fs::disk::DiskFs;
use crate::infra::fs::{Name, Open, StorePath};

use super::Material;

/// Material of lines, in a file that has lost its name.
pub(super) fn material_of(lines: &str) -> Material {
    let place = tempfile::tempdir().unwrap();
    let path = StorePath::ROOT.join(Name::fixed("to_summarize.jsonl"));
    let file = DiskFs::open(place.path()).unwrap().open(&path, Open::New).unwrap();
    file.write_all_at(lines.as_bytes(), 0).unwrap();
    Material::new(file, lines.len() as u64)
}

/// A policy that says nothing of its own.
pub(super) fn policy() -> Policy {
    Policy {
        enabled: true,
        auto: true,
        strategy: Strategy::Summarize,
        limit: 128_000,
        limit_source: LimitSource::Default,
        threshold_tokens: 89_600,
        keep_recent_messages: 5,
        min_messages: 5,
        summarizer: Summarizer::Llm,
        provider: None,
        model: None,
        summary_prompt: None,
        final_summary_prompt: None,
        summary_directives: vec![],
        retain_prompt: None,
        retain_directives: vec![],
        retain_last_turns: 1,
        structured: false,
        keep_plan: false,
        summary_tokens: None,
        prune_target: 0.7,
        prune_weights: [0.3, 0.3, 0.4],
        scoring: Scoring {
            roles: [1.0; 5],
            keywords: vec![],
            short_length: 20,
            short_penalty: 0.5,
            min_gap_for_summary: 5,
            gap_message_chars: 200,
            gap_max_tokens: 150,
            gap_temperature: 0.3,
        },
        window_messages: None,
        window_tokens: None,
        inherits: true,
        max_inherited_tokens: 4000,
        target_tokens: None,
    }
}
