//! Names of older designs, which are refused: with the key that there is now, or with why there is none.

/// Names for what is a key here: the last part of what was written, or all of it.
pub(super) const RENAMED: &[(&str, &str)] = &[
    ("base_dir", "data_dir"),
    ("context_dir", "data_dir"),
    ("db_timeout", "catalog.busy_timeout"),
    ("max_retries", "catalog.retries"),
    ("heartbeat_interval", "lease.ttl"),
    ("compression_threshold", "compression.threshold"),
    ("thresholdRatio", "compression.threshold"),
    ("threshold_ratio", "compression.threshold"),
    ("pruning_threshold", "compression.threshold"),
    ("keep_recent", "compression.keep_recent_messages"),
    ("min_to_compress", "compression.min_messages"),
    ("min_messages_to_summarize", "compression.min_messages"),
    ("summaryPrompt", "compression.summary_prompt"),
    ("finalSummaryPrompt", "compression.final_summary_prompt"),
    ("summaryDirectives", "compression.summary_directives"),
    ("retainPrompt", "compression.retain_prompt"),
    ("retainDirectives", "compression.retain_directives"),
    ("retainLastTurns", "compression.retain_last_turns"),
    ("target_usage", "prune.target"),
    ("recency_weight", "prune.weights.recency"),
    ("role_weight", "prune.weights.role"),
    ("content_weight", "prune.weights.content"),
    ("important_keywords", "prune.keywords"),
    ("min_content_length", "prune.short_length"),
    ("min_content_length_penalty_threshold", "prune.short_length"),
    ("short_content_penalty", "prune.short_penalty"),
    ("toolOutputCache.enabled", "outputs.enabled"),
    ("contextBudgetTokens", "outputs.budget_tokens"),
    ("context_budget_tokens", "outputs.budget_tokens"),
    ("maxMessageBytes", "outputs.max_message_bytes"),
    ("maxLineLength", "outputs.max_line_length"),
];

const LATER: &str = "this version has nothing that it would set";
const AGENT: &str = "that is the agent's business";

/// Names for which there is no key, and why.
pub(super) const GONE: &[(&str, &str)] = &[
    ("retry_delay", "the pauses between tries grow by themselves (catalog.retries says how many)"),
    ("process_timeout", "a task may take as long as it wants; a lease that is not renewed ends (lease.ttl)"),
    ("max_memory_messages", "no messages are held in memory"),
    ("backend", "there is one file format"),
    ("max_workers", AGENT),
    ("enable_summarization", "compression.summarizer says who summarises"),
    ("retention_days", LATER),
    ("cleanup_days", LATER),
    ("threshold_days", LATER),
    (
        "api_key",
        "a key does not stand in a configuration; llm.providers.*.api_key_env names the variable that holds it, api_key_file the file",
    ),
    ("endpoint", "each provider has its own: llm.providers.*.base_url"),
    ("max_token", "each provider has its own: llm.providers.*.max_output_tokens"),
];
