//! Owns source files: functions and types of several languages with nothing in them that matters.

use super::forms::{Form, form};

/// The form of a source file in a language.
pub(super) fn code(lang: &str) -> Form {
    match lang {
        "py" => form(
            "\"\"\"$c\"\"\"\n\nimport logging\n\nfrom $n.$m import $v_$o\n\nlog = logging.getLogger(__name__)\n",
            PY,
            "",
        ),
        "rs" => form("//! $c\n\nuse std::collections::BTreeMap;\n\nuse crate::$n::$M;\n", RS, ""),
        "ts" => form("// $c\nimport { use$N } from \"../$n/$m\";\nimport type { $M } from \"../types\";\n", TS, ""),
        "go" => form("// $c\npackage $n\n\nimport (\n\t\"context\"\n\t\"fmt\"\n)\n", GO, ""),
        "cpp" => form("// $c\n#include <vector>\n#include \"$n/$m.h\"\n", CPP, ""),
        "tf" => form("# $c\nterraform {\n  required_version = \">= 1.$1\"\n}\n", TF, ""),
        "kt" => form("package jp.example.$n\n\nimport kotlinx.coroutines.*\n", KT, ""),
        _ => form("package com.example.$n;\n\nimport java.util.List;\n\n/** $c */", JAVA, ""),
    }
}

const PY: &[&str] = &[
    "def $v_$n($m, limit=$3):\n    \"\"\"$c\"\"\"\n    out = []\n    for row in $m:\n        if row.$n is None:\n            continue\n        out.append($u_$o(row, limit))\n    return out\n",
    "class $N$M:\n    # $c\n    $m_limit = $3\n\n    def __init__(self, $n, $o=None):\n        self.$n = $n\n        self._$o = $o or {}\n\n    def $v(self):\n        return sum(x.$m for x in self.$n)\n",
    "async def $v_$m(session, $n_id):\n    # $c\n    async with session.get(f\"/$m/{$n_id}\") as resp:\n        data = await resp.json()\n    log.debug(\"$v %s\", $n_id)\n    return data.get(\"$n\", [])\n",
    "$N_DEFAULTS = {\n    \"$n\": $3,\n    \"$m\": \"$h\",\n    \"retry\": $1,\n}\n",
];

const RS: &[&str] = &[
    "/// $c\npub fn $v_$n($m: &[$N], limit: usize) -> Vec<$M> {\n    let mut out = Vec::with_capacity($m.len());\n    for item in $m.iter().take(limit) {\n        if let Some(found) = item.$v() {\n            out.push(found);\n        }\n    }\n    out\n}\n",
    "#[derive(Debug, Clone, Default)]\npub struct $N$M {\n    /// $c\n    pub $n: u32,\n    $m: BTreeMap<String, u64>,\n}\n",
    "impl $N {\n    // $c\n    fn $v_$m(&mut self, $m: u16) -> Result<(), $NError> {\n        self.$n = self.$n.wrapping_add($m);\n        if self.$n > $3 {\n            return Err($NError::TooMany);\n        }\n        Ok(())\n    }\n}\n",
    "const $N_SLOTS: usize = $2;\nstatic $M_NAMES: [&str; 2] = [\"$n\", \"$m\"];\n",
];

const TS: &[&str] = &[
    "export function $v$N($m: $M[], limit = $2): $N[] {\n  // $c\n  return $m\n    .filter((item) => item.$n !== null)\n    .slice(0, limit)\n    .map((item) => ({ ...item, $n: $u$M(item) }));\n}\n",
    "export const $N$MCard = ({ $n, on$M }: Props) => {\n  const [open, setOpen] = useState(false);\n  // $c\n  useEffect(() => {\n    if (open) on$M($n.id);\n  }, [open]);\n  return <div className=\"$n-$m\">{$n.label}</div>;\n};\n",
    "interface $N$M {\n  id: string;\n  $n: number;\n  $m?: string | null;\n}\n",
    "const $nSlice = createSlice({\n  name: \"$n\",\n  initialState: { $m: [], page: $1 },\n  reducers: {\n    $v(state, action) {\n      state.$m = action.payload;\n    },\n  },\n});\n",
];

const GO: &[&str] = &[
    "// $c\nfunc (s *$N) $u$M(ctx context.Context, $m string) (int, error) {\n\tn, err := s.store.$u(ctx, $m)\n\tif err != nil {\n\t\treturn 0, fmt.Errorf(\"$v $n: %w\", err)\n\t}\n\treturn n + $2, nil\n}\n",
    "type $N$M struct {\n\t$N   string `json:\"$n\"`\n\t$MID int64  `json:\"$m_id\"` // $c\n}\n",
    "func $v$N(in []$M) map[string]int {\n\tout := make(map[string]int, len(in))\n\tfor _, x := range in {\n\t\tout[x.$N]++\n\t}\n\treturn out\n}\n",
    "var $nBuckets = []float64{0.$1, $1, $2, $3}\n",
];

const CPP: &[&str] = &[
    "// $c\nint $N::$v$M(const std::vector<$M>& $m) {\n  int total = 0;\n  for (const auto& x : $m) {\n    if (x.$n() > $2) total += x.$n();\n  }\n  return total;\n}\n",
    "struct $N$M {\n  uint32_t $n = $3;  // $c\n  float $m = 0.$2f;\n};\n",
    "void $N::$v(float dt) {\n  accumulated_ += dt;\n  while (accumulated_ >= 1.0f / $2) {\n    $u$M();\n    accumulated_ -= 1.0f / $2;\n  }\n}\n",
];

const TF: &[&str] = &[
    "resource \"aws_$n\" \"$m\" {\n  name  = \"$n-$m\"\n  count = $1\n  tags  = local.tags # $c\n}\n",
    "variable \"$n_$m\" {\n  type    = number\n  default = $3\n}\n",
    "module \"$n\" {\n  source = \"../modules/$m\"\n  $o_id  = \"$o-$h\"\n  size   = $2\n}\n",
    "output \"$n_$m_arn\" {\n  value = aws_$n.$m.arn\n}\n",
];

const KT: &[&str] = &[
    "/** $c */\nsuspend fun $v$N($m: List<$M>): List<$N> {\n    return $m.filter { it.$n != null }\n        .take($2)\n        .map { $u$M(it) }\n}\n",
    "data class $N$M(\n    val id: Long,\n    val $n: String?,\n    val $m: Int = $2, // $c\n)\n",
    "class $NViewModel(private val $m: $MRepository) : ViewModel() {\n    fun $v() = viewModelScope.launch {\n        _state.value = $m.$u($3)\n    }\n}\n",
];

const JAVA: &[&str] = &[
    "    // $c\n    public List<$N> $v$M(List<$M> $m, int limit) {\n        return $m.stream()\n            .filter(x -> x.get$N() != null)\n            .limit(limit)\n            .map(this::$u$N)\n            .toList();\n    }\n",
    "    private static final int $N_LIMIT = $4;\n    private final $MRepository $mRepository;\n",
    "    @Override\n    public void $v$N(String $n) {\n        if ($n == null || $n.isEmpty()) {\n            log.debug(\"no $n, skipped\");\n            return;\n        }\n        $mRepository.$u($n, $2); // $c\n    }\n",
];
