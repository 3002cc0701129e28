//! From the text of rule files to a catalog: everything a rule promises is checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;

use super::error::RuleError;
use super::matcher::{Expression, Matcher, Pattern};
use super::schema::{FixFile, MatchFile, RuleFile};
use super::verify::{self, Case, Outcome};
use super::{BUILTIN_FILES, CaptureKind, Catalog, FixTemplate, HitCase, Rule, gate, template};
use crate::engine::ids::RuleIx;
use crate::engine::vocab::LineClass;

/// Loads all files; see [`Catalog::load`].
pub(super) fn catalog<P: AsRef<str>, T: AsRef<str>>(files: &[(P, T)]) -> (Catalog, Vec<RuleError>) {
    let mut errors = Vec::new();
    let mut loaded: BTreeMap<String, (Rule, Vec<Pattern>)> = BTreeMap::new();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (path, text) in files {
        let source = Source {
            path: path.as_ref(),
            text: text.as_ref(),
        };
        match file(source) {
            Err(mut found) => errors.append(&mut found),
            Ok((rule, patterns, places)) => {
                if let Some((first, _)) = loaded.get(&rule.id) {
                    let message = format!("the id {} is taken", rule.id);
                    errors.push(
                        source
                            .error(message, places.id)
                            .label(format!("{} has it", first.path)),
                    );
                } else if let Some(first) = names.get(&rule.name) {
                    let message = format!("the name {} is taken", rule.name);
                    errors.push(
                        source
                            .error(message, places.name)
                            .label(format!("{first} has it")),
                    );
                } else {
                    names.insert(rule.name.clone(), rule.id.clone());
                    loaded.insert(rule.id.clone(), (rule, patterns));
                }
            }
        }
    }

    let mut rules = Vec::new();
    let mut patterns = Vec::new();
    for (rule, own) in loaded.into_values() {
        let ix = RuleIx::from_ix(rules.len());
        patterns.extend(own.into_iter().map(|p| Pattern { rule: ix, ..p }));
        rules.push(rule);
    }
    (
        Catalog {
            rules,
            matcher: Matcher::new(&patterns),
            patterns,
        },
        errors,
    )
}

/// A file that is being loaded.
#[derive(Clone, Copy)]
struct Source<'a> {
    path: &'a str,
    text: &'a str,
}

/// Places of a good file that later errors point at.
struct Places {
    id: Range<usize>,
    name: Range<usize>,
}

impl Source<'_> {
    fn is_builtin(self) -> bool {
        BUILTIN_FILES.contains(&(self.path, self.text))
    }
}

impl Source<'_> {
    fn error(self, message: impl Into<String>, span: Range<usize>) -> RuleError {
        RuleError::new(self.path, self.text, message).at(span)
    }

    /// The place of `part` (a range of `value`) within the string at `span`; the whole string where
    /// escapes make the two differ.
    fn within(self, span: &Range<usize>, value: &str, part: &Range<usize>) -> Range<usize> {
        let written = self.text.get(span.clone()).and_then(|raw| raw.find(value));
        written.map_or_else(
            || span.clone(),
            |at| span.start + at + part.start..span.start + at + part.end,
        )
    }
}

/// Loads one file.
fn file(source: Source<'_>) -> Result<(Rule, Vec<Pattern>, Places), Vec<RuleError>> {
    let parsed: RuleFile = toml::from_str(source.text).map_err(|e| {
        let error = RuleError::new(source.path, source.text, e.message().trim().to_owned());
        vec![match e.span() {
            Some(span) => error.at(span),
            None => error,
        }]
    })?;

    let mut errors = Vec::new();
    check_words(source, &parsed, &mut errors);
    let mut captures = BTreeMap::new();
    let mut patterns = Vec::new();
    for one in &parsed.matches.0 {
        if let Some(pattern) = pattern(source, one, &mut errors) {
            patterns.push(pattern);
        }
        for (name, kind) in &one.captures {
            if captures
                .insert(name.as_ref().clone(), *kind)
                .is_some_and(|other| other != *kind)
            {
                errors.push(source.error(
                    "a capture has one type in all of a rule's patterns",
                    name.span(),
                ));
            }
        }
    }
    check_templates(source, &parsed, &captures, &mut errors);

    let places = Places {
        id: parsed.id.span(),
        name: parsed.name.span(),
    };
    let hit_places: Vec<_> = parsed.hit.iter().map(|h| h.message.span()).collect();
    let miss_places: Vec<_> = parsed.miss.iter().map(|m| m.message.span()).collect();
    let rule = rule(source, parsed, captures);
    // Hits say nothing as long as a pattern is broken; those of the rules in the binary are tested
    // when it is built.
    if errors.is_empty() && !source.is_builtin() {
        let own: Vec<&Pattern> = patterns.iter().collect();
        for (case, outcome) in verify::rule(&rule, &own) {
            let span = match case {
                Case::Hit(n) => hit_places[n].clone(),
                Case::Miss(n) => miss_places[n].clone(),
            };
            errors.extend(case_error(source, span, outcome));
        }
    }
    if errors.is_empty() {
        Ok((rule, patterns, places))
    } else {
        Err(errors)
    }
}

fn case_error(source: Source<'_>, span: Range<usize>, outcome: Outcome) -> Option<RuleError> {
    match outcome {
        Outcome::Validated | Outcome::Reported => None,
        Outcome::Missing => Some(
            source
                .error("this hit does not match", span)
                .label("missing"),
        ),
        Outcome::Noisy => Some(source.error("this miss matches", span).label("noisy")),
        Outcome::Wrong {
            capture,
            expected,
            actual,
        } => {
            let label = match actual {
                Some(actual) => format!("wrong: {capture} is {actual:?}, expected {expected:?}"),
                None => format!("wrong: {capture} captures nothing, expected {expected:?}"),
            };
            Some(
                source
                    .error("this hit captures something else", span)
                    .label(label),
            )
        }
    }
}

/// Id, name, and whether anything can make the rule fire.
fn check_words(source: Source<'_>, parsed: &RuleFile, errors: &mut Vec<RuleError>) {
    let id = parsed.id.as_ref();
    let digits = id.len().saturating_sub(3);
    let family = id.get(..digits).unwrap_or("");
    let good = family.len() >= 2
        && family.starts_with(|c: char| c.is_ascii_uppercase())
        && family
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        && id[digits..].bytes().all(|b| b.is_ascii_digit());
    if !good {
        let error = source.error("an id is family letters and three digits", parsed.id.span());
        errors.push(error.hint("for example NET003"));
    }
    let kebab = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if parsed.name.as_ref().is_empty() || !parsed.name.as_ref().bytes().all(kebab) {
        let error = source.error("a name is lowercase words with dashes", parsed.name.span());
        errors.push(error.hint("for example interface-differs"));
    }
    if parsed.matches.0.is_empty() && parsed.detector.is_none() {
        let error = source.error("nothing can make this rule fire", parsed.id.span());
        errors.push(error.hint("add a [match] with a regex, or name a detector"));
    }
    if parsed.detector.is_none() {
        errors.extend(parsed.facts.first().map(|fact| {
            source.error("facts come from a detector, and none is named", fact.span())
        }));
    }
    for fix in &parsed.fix {
        if !fix.env.is_empty() && fix.undo.is_none() {
            let error = source.error("a fix with variables says how to undo it", fix.text.span());
            errors.push(error.hint("add: undo = \"unset …\""));
        }
        let text = fix.text.as_ref();
        if text
            .trim_start_matches('`')
            .to_lowercase()
            .starts_with("unset ")
            && fix.unset.is_empty()
        {
            let error = source.error("a fix that unsets variables lists them", fix.text.span());
            errors.push(error.hint("add: unset = [\"…\"]"));
        }
    }
}

/// Compiles one `[match]`; `None` after an error.
fn pattern(source: Source<'_>, one: &MatchFile, errors: &mut Vec<RuleError>) -> Option<Pattern> {
    let before = errors.len();
    let text = one.regex.as_ref();
    let span = one.regex.span();
    if one.class.as_ref().is_empty() {
        errors.push(source.error(
            "a pattern needs at least one class of line",
            one.class.span(),
        ));
    }
    let hir = match regex_syntax::ParserBuilder::new()
        .utf8(false)
        .unicode(false)
        .build()
        .parse(text)
    {
        Ok(hir) => hir,
        Err(e) => {
            errors.push(bad_regex(source, &span, text, &e));
            return None;
        }
    };
    let regex = Expression::new(text);
    // Those of the binary are compiled by the tests of their hits.
    if !source.is_builtin()
        && let Err(e) = regex.check()
    {
        let error = source.error("this regex cannot be used", span);
        errors.push(error.label(e.to_string()));
        return None;
    }

    let names = gate::names(&hir);
    let named: BTreeSet<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    for name in one
        .captures
        .keys()
        .filter(|name| !named.contains(name.as_ref().as_str()))
    {
        errors.push(source.error("this capture is not in the regex", name.span()));
    }
    for name in named
        .iter()
        .filter(|name| !one.captures.contains_key(**name))
    {
        let group = format!("<{name}>");
        let at = text
            .find(&group)
            .map_or(0..text.len(), |at| at..at + group.len());
        let error = source.error("this capture has no type", source.within(&span, text, &at));
        errors.push(error.hint(format!("add under [match.captures]: {name} = \"text\"")));
    }

    let literals = match &one.gate {
        Some(literal) => Some((vec![literal.as_ref().clone().into_bytes()], literal.span())),
        None => gate::required(&hir).map(|set| (set, span.clone())),
    };
    match literals {
        Some((set, _)) if gate::shortest(&set) >= gate::MIN_BYTES => {
            (errors.len() == before).then(|| Pattern {
                rule: RuleIx(0),
                classes: one.class.as_ref().clone(),
                gate: set,
                misspelt: misspelt(one, &names),
                names: leaked(&names),
                regex,
            })
        }
        found => {
            let at = found.map_or(span, |(_, span)| span);
            let message = format!(
                "no literal of {} bytes or more is in every match",
                gate::MIN_BYTES
            );
            let hint = "name one that every line has: gate = \"…\" (each line is searched for all gates at once)";
            errors.push(source.error(message, at).hint(hint));
            None
        }
    }
}

/// The group that has to be a misspelt name.
fn misspelt(one: &MatchFile, names: &[(usize, String)]) -> Option<usize> {
    let is = |(name, kind): (&Spanned<String>, &CaptureKind)| {
        (*kind == CaptureKind::Misspelt).then(|| name.as_ref().clone())
    };
    let wanted = one.captures.iter().find_map(is)?;
    let (group, _) = names.iter().find(|(_, name)| *name == wanted)?;
    Some(*group)
}

/// A catalog is loaded once in a process, so the few names of its groups may live as long.
fn leaked(names: &[(usize, String)]) -> Vec<(usize, &'static str)> {
    let leak = |name: &str| -> &'static str { Box::leak(name.to_owned().into_boxed_str()) };
    names.iter().map(|(ix, name)| (*ix, leak(name))).collect()
}

fn bad_regex(
    source: Source<'_>,
    span: &Range<usize>,
    text: &str,
    e: &regex_syntax::Error,
) -> RuleError {
    let (place, what) = match e {
        regex_syntax::Error::Parse(e) => (e.span(), e.kind().to_string()),
        regex_syntax::Error::Translate(e) => (e.span(), e.kind().to_string()),
        other => {
            return source
                .error("this regex cannot be used", span.clone())
                .label(other.to_string());
        }
    };
    let part = place.start.offset..place.end.offset.max(place.start.offset + 1).min(text.len());
    source
        .error(
            "this regex cannot be used",
            source.within(span, text, &part),
        )
        .label(what)
}

/// Every placeholder in every text is a capture, a fact, or always known.
fn check_templates(
    source: Source<'_>,
    parsed: &RuleFile,
    captures: &BTreeMap<String, CaptureKind>,
    errors: &mut Vec<RuleError>,
) {
    let facts: BTreeSet<&str> = parsed.facts.iter().map(|f| f.as_ref().as_str()).collect();
    let known = |name: &str| facts.contains(name) || captures.contains_key(name);
    let mut texts: Vec<&Spanned<String>> = vec![&parsed.title, &parsed.meaning, &parsed.why];
    texts.extend(&parsed.missing);
    for FixFile {
        text,
        env,
        when,
        caution,
        undo,
        ..
    } in &parsed.fix
    {
        if let Some(when) = when
            && let Err(problem) = template::check_condition(when.as_ref(), &known)
        {
            errors.push(source.error(problem.message, when.span()));
        }
        texts.push(text);
        texts.extend(env.values().chain(caution).chain(undo));
    }
    for text in texts {
        if text.as_ref().trim().is_empty() {
            errors.push(source.error("this text is empty", text.span()));
        } else if let Err(problem) = template::check(text.as_ref(), &known) {
            let names: Vec<&str> = captures
                .keys()
                .map(String::as_str)
                .chain(facts.iter().copied())
                .chain(template::ALWAYS.iter().copied())
                .collect();
            let at = source.within(&text.span(), text.as_ref(), &problem.span);
            errors.push(
                source
                    .error(problem.message, at)
                    .hint(format!("known here: {}", names.join(", "))),
            );
        }
    }
}

/// The rule, as the rest of the engine sees it.
fn rule(source: Source<'_>, parsed: RuleFile, captures: BTreeMap<String, CaptureKind>) -> Rule {
    let mut classes: Vec<LineClass> = parsed
        .matches
        .0
        .iter()
        .flat_map(|m| m.class.as_ref().iter().copied())
        .collect();
    classes.sort();
    classes.dedup();
    Rule {
        id: parsed.id.into_inner(),
        name: parsed.name.into_inner(),
        class: parsed.class,
        severity: parsed.severity,
        role: parsed.role,
        effect: parsed.effect,
        confidence: parsed.confidence,
        phase: parsed.phase,
        merge: parsed.merge,
        printer_is_victim: parsed.printer_is_victim,
        title: prose(parsed.title.as_ref()),
        meaning: prose(parsed.meaning.as_ref()),
        why: prose(parsed.why.as_ref()),
        fixes: parsed.fix.into_iter().map(fix).collect(),
        missing: parsed.missing.iter().map(|m| prose(m.as_ref())).collect(),
        sources: parsed.source,
        references: parsed.references,
        detector: parsed.detector.map(Spanned::into_inner),
        thresholds: parsed.thresholds,
        classes,
        path: source.path.to_owned(),
        status: parsed.status,
        versions: parsed.versions,
        facts: parsed.facts.into_iter().map(Spanned::into_inner).collect(),
        names_things: captures
            .values()
            .any(|kind| matches!(kind, CaptureKind::Process | CaptureKind::Gpu)),
        captures,
        hits: parsed
            .hit
            .into_iter()
            .map(|h| HitCase {
                message: h.message.into_inner(),
                captures: h.captures,
            })
            .collect(),
        misses: parsed
            .miss
            .into_iter()
            .map(|m| m.message.into_inner())
            .collect(),
    }
}

fn fix(file: FixFile) -> FixTemplate {
    FixTemplate {
        kind: file.kind,
        text: prose(file.text.as_ref()),
        env: file
            .env
            .into_iter()
            .map(|(name, value)| (name, value.into_inner()))
            .collect(),
        unset: file.unset.into_iter().map(Spanned::into_inner).collect(),
        cures: file.cures,
        when: file.when.map(Spanned::into_inner),
        caution: file.caution.map(|t| prose(t.as_ref())),
        undo: file.undo.map(|t| prose(t.as_ref())),
    }
}

/// Text as it is read: lines of a paragraph joined, paragraphs kept apart.
fn prose(text: &str) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    for paragraph in text.split("\n\n") {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        if !words.is_empty() {
            paragraphs.push(words.join(" "));
        }
    }
    paragraphs.join("\n\n")
}
