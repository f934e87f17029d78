//! Made-up source code: owns lines and functions in the languages of the scripts.

use super::Rng;
use super::noise::{Setting, VERBS};

/// One line of code.
pub(super) fn line(rng: &mut Rng, setting: &Setting) -> String {
    let (one, other, verb) = (setting.word(rng), setting.word(rng), rng.pick(&VERBS));
    let number = rng.between(2, 64);
    let style = rng.below(6);
    match (setting.ext.as_str(), style) {
        ("py", 0) => format!("    {one} = {verb}_{other}({one}_id, limit={number})"),
        ("py", 1) => format!("    for {one} in {other}s.values():"),
        ("py", 2) => format!("        if {one}.{other} is None:"),
        ("py", 3) => format!("    return [{one}.{other} for {one} in self.{verb}_{one}s()]"),
        ("py", _) => format!("    self.{one}_{other}.{verb}({one}, retries={number})"),
        ("go", 0) => format!("\t{one}, err := s.{verb}_{other}(ctx, {number})"),
        ("go", 1) => "\tif err != nil {".to_owned(),
        ("go", 2) => format!("\tfor _, {one} := range {other}s {{"),
        ("go", _) => format!("\t{one}.{other} = append({one}.{other}, {verb}({number}))"),
        ("rs", 0) => format!("    let {one} = self.{verb}_{other}({number})?;"),
        ("rs", 1) => format!("    match {one}.{other}.as_deref() {{"),
        ("rs", 2) => format!("        Some({one}) => {verb}_{other}(&{one}),"),
        ("rs", _) => format!("    {one}.{other}s.push({verb}({one}_index + {number}));"),
        ("kt" | "java" | "swift", 0) => format!("    val {one} = {other}Repository.{verb}({number})"),
        ("kt" | "java" | "swift", 1) => format!("    {one}?.let {{ {verb}(it.{other}) }}"),
        ("kt" | "java" | "swift", 2) => format!("    private val {one}{number} = mutableListOf<{other}>()"),
        ("kt" | "java" | "swift", _) => format!("    viewModel.{one}.{verb}({other} = {number})"),
        ("tf" | "yaml" | "yml", 0) => format!("  {one}_{other}: \"{verb}-{number}\""),
        ("tf" | "yaml" | "yml", 1) => format!("  - name: {verb}-{one}"),
        ("tf" | "yaml" | "yml", _) => format!("    {one}: {number}"),
        ("sql", 0) => format!("  left join {one}s on {one}s.id = {other}s.{one}_id"),
        ("sql", 1) => format!("  coalesce({one}s.{other}, {number}) as {verb}_{other},"),
        ("sql", _) => format!("  and {one}s.{other} > {number}"),
        ("md", _) => format!("The {one} and its {other} are described on the {verb} page."),
        (_, 0) => format!("  const {one} = await {verb}_{other}({{ limit: {number} }});"),
        (_, 1) => format!("  if (!{one}.{other}) return null;"),
        (_, 2) => format!("  {one}.{other}s.forEach((item) => {verb}(item, {number}));"),
        (_, 3) => format!("  return {{ ...{one}, {other}: {verb}({other}) }};"),
        (_, _) => format!("  expect({one}.{verb}({other})).toHaveLength({number});"),
    }
}

/// A file of about so many lines.
pub(super) fn code(count: usize, rng: &mut Rng, setting: &Setting) -> String {
    let mut out: Vec<String> = Vec::new();
    while out.len() < count {
        let (verb, word, other) = (rng.pick(&VERBS), setting.word(rng), setting.word(rng));
        let name = format!("{verb}_{word}");
        let (head, tail) = match setting.ext.as_str() {
            "py" => (
                format!(
                    "def {name}(self, {other}, *, dry_run=False):\n    \"\"\"{verb} the {word} of a {other}.\"\"\""
                ),
                String::new(),
            ),
            "go" => (
                format!(
                    "// {name} is used by the {other} page.\nfunc (s *Service) {name}(ctx context.Context, {other} string) error {{"
                ),
                "\treturn nil\n}".to_owned(),
            ),
            "rs" => (
                format!(
                    "/// Used for a {other}.\nfn {name}(&mut self, {other}: &str) -> Result<(), Error> {{"
                ),
                "    Ok(())\n}".to_owned(),
            ),
            "kt" | "java" | "swift" => {
                (format!("fun {name}({other}: String): Boolean {{"), "    return true\n}".to_owned())
            }
            "tf" | "yaml" | "yml" => (format!("{word}_{other}:"), String::new()),
            "sql" => (format!("-- {verb} {word}\nselect {other}s.id,"), ";".to_owned()),
            "md" => (format!("## {verb} {word}\n"), String::new()),
            _ => (format!("export async function {name}({other}: string) {{"), "}".to_owned()),
        };
        out.push(head);
        for _ in 0..rng.between(4, 10) {
            out.push(line(rng, setting));
        }
        out.push(tail + "\n");
    }
    out.join("\n")
}
