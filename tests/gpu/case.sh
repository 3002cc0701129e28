# Sourced: one case of the self-test with what it must end in. Sets `wrong`; wants $unhang, $out and $work.
#
#   case_ NAME EXPECTED_CODE 'WORDS OF THE FAULT, VERDICT OR FINDING' ARGS...

wrong=0

case_() {
    local name=$1 code=$2 words=$3
    shift 3
    local began
    began=$(date +%s.%N)
    TMPDIR=$work "$unhang" selftest --format json "$@" > "$work/out.json" 2> "$work/err"
    local got=$?
    python3 - "$name" "$code" "$words" "$got" "$began" "$work/out.json" "$work/err" <<'PY'
import json, sys, time
name, code, words, got, began, path, err = sys.argv[1:]
try:
    j = json.load(open(path))
except ValueError:
    j = {"fault": open(err).read().strip()}
finding = j.get("finding") or {}
links = (j.get("links") or {}).get("words")
planted = [rank["facts"]["planted"] for rank in j.get("ranks") or [] if "planted" in rank.get("facts", {})]
said = " ".join(filter(None, [j.get("verdict"), j.get("answer"), j.get("proves") if j.get("verdict") == "proved-nothing" else "", j.get("fault"), links, *planted]))
where = said + " " + finding.get("title", "") + " " + finding.get("class", "")
ok = got == code and all(word in where for word in words.split("&"))
print(f"{'ok   ' if ok else 'WRONG'} {name:<28} exit {got:<3} {time.time()-float(began):5.1f} s  {said}")
if finding:
    print(f"      {finding.get('rule')} {finding.get('class')}: {finding.get('title')}")
sys.exit(0 if ok else 1)
PY
    [ $? = 0 ] || wrong=$((wrong + 1))
    cp -r "$work"/unhang-selftest-*/run "$out/$name" 2>/dev/null
    rm -rf "$out/$name"/lib*
    rm -rf "$work"/unhang-selftest-*
}
