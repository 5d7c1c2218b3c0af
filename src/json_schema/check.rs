// SPDX-License-Identifier: GPL-3.0-or-later
//! Applies compiled keywords to a value. A schema that refers to itself without getting any further,
//! or that multiplies its work, ends in a problem, not in a hang.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::decimal::{Decimal, canonical};
use super::pattern::{Match, SchemaPattern};
use super::schema::{
    Bound, Constant, Evaluated, Keyword, NodeId, Others, ResourceId, Schema, Type, kind_of,
};
use super::{Fault, ValueProblem};

/// How many schemas may be entered within each other: several for each level of the deepest value.
const DEEPEST: usize = 500;
/// How many schemas may be entered for one value.
const MOST_STEPS: usize = 1_000_000;

impl Schema {
    /// All that is wrong with VALUE; nothing if it fits.
    #[must_use]
    pub fn problems(&self, value: &Value) -> Vec<ValueProblem> {
        problems(self, value)
    }
}

fn problems(schema: &Schema, value: &Value) -> Vec<ValueProblem> {
    let mut check = Check {
        schema,
        scope: Vec::new(),
        entered: Vec::new(),
        steps: 0,
    };
    check.enter(schema.root, value, &ValuePath::Root).problems
}

struct Check<'s> {
    schema: &'s Schema,
    /// The resources that were entered, from outside to inside.
    scope: Vec<ResourceId>,
    /// What is being checked against what, from outside to inside.
    entered: Vec<(NodeId, *const Value)>,
    steps: usize,
}

impl<'s> Check<'s> {
    fn enter<'v>(
        &mut self,
        id: NodeId,
        value: &'v Value,
        path: &ValuePath<'_>,
    ) -> SchemaVerdict<'v> {
        let entry = (id, std::ptr::from_ref(value));
        self.steps += 1;
        if self.entered.contains(&entry) {
            return SchemaVerdict::other(
                path,
                "the schema refers to itself without end".to_owned(),
            );
        }
        if self.entered.len() == DEEPEST || self.steps > MOST_STEPS {
            return SchemaVerdict::other(
                path,
                "the schema asks for too much work to check this".to_owned(),
            );
        }
        let node = &self.schema.nodes[id.0];
        self.entered.push(entry);
        self.scope.push(node.resource);
        let mut verdict = SchemaVerdict::default();
        for keyword in &node.keywords {
            let said = self.apply(keyword, value, path, &verdict);
            verdict.absorb(said);
        }
        self.scope.pop();
        self.entered.pop();
        if !verdict.fits() {
            verdict.members.clear();
            verdict.elements.clear();
        }
        verdict
    }

    fn apply<'v>(
        &mut self,
        keyword: &Keyword,
        value: &'v Value,
        path: &ValuePath<'_>,
        before: &SchemaVerdict<'v>,
    ) -> SchemaVerdict<'v> {
        match (keyword, value) {
            (Keyword::Never, _) => SchemaVerdict::other(path, "nothing is allowed here".to_owned()),
            (Keyword::Types(types), _) => of_types(types, value, path),
            (Keyword::OneOfConstants(constants), _) => among(constants, value, path),
            (Keyword::Reference(node), _) => self.enter(*node, value, path),
            (Keyword::DynamicReference { anchor, fallback }, _) => {
                let node = self.dynamic(anchor).unwrap_or(*fallback);
                self.enter(node, value, path)
            }
            (Keyword::SchemaItself, _) => match Schema::compile(value) {
                Ok(_) => SchemaVerdict::default(),
                Err(error) => {
                    SchemaVerdict::other(path, format!("Field must be a schema: {error}"))
                }
            },
            (
                Keyword::AllOf(_)
                | Keyword::AnyOf(_)
                | Keyword::OneOf(_)
                | Keyword::Not(_)
                | Keyword::Conditional { .. },
                _,
            ) => self.combined(keyword, value, path),
            (Keyword::Number(_) | Keyword::MultipleOf(_), Value::Number(number)) => {
                number_problem(keyword, &Decimal::of(number), value)
                    .map_or_else(SchemaVerdict::default, |sentence| {
                        SchemaVerdict::other(path, sentence)
                    })
            }
            (Keyword::Length(bound), Value::String(text)) => {
                counted(bound, text.chars().count(), "characters", path)
            }
            (Keyword::Pattern(pattern), Value::String(text)) => shaped(pattern, text, path),
            (_, Value::Array(elements)) => self.array(keyword, elements, path, before),
            (_, Value::Object(members)) => self.object(keyword, value, members, path, before),
            _ => SchemaVerdict::default(),
        }
    }

    /// The outermost schema with ANCHOR among those that were entered.
    fn dynamic(&self, anchor: &str) -> Option<NodeId> {
        self.scope
            .iter()
            .find_map(|resource| {
                self.schema.resources[resource.0]
                    .dynamic_anchors
                    .get(anchor)
            })
            .copied()
    }

    fn combined<'v>(
        &mut self,
        keyword: &Keyword,
        value: &'v Value,
        path: &ValuePath<'_>,
    ) -> SchemaVerdict<'v> {
        let mut verdict = SchemaVerdict::default();
        match keyword {
            Keyword::AllOf(nodes) => {
                for node in nodes {
                    verdict.absorb(self.enter(*node, value, path));
                }
            }
            Keyword::AnyOf(nodes) => {
                let (fitting, problems) = self.alternatives(nodes, value, path);
                if fitting.is_empty() {
                    return SchemaVerdict::fault(path, Fault::NoAlternative(problems));
                }
                fitting
                    .into_iter()
                    .for_each(|(_, fits)| verdict.absorb(fits));
            }
            Keyword::OneOf(nodes) => {
                let (mut fitting, problems) = self.alternatives(nodes, value, path);
                match fitting.len() {
                    0 => return SchemaVerdict::fault(path, Fault::NoAlternative(problems)),
                    1 => fitting.drain(..).for_each(|(_, fits)| verdict.absorb(fits)),
                    _ => {
                        let places: Vec<String> = fitting
                            .iter()
                            .map(|(index, _)| format!("({})", index + 1))
                            .collect();
                        let sentence = format!(
                            "Field must fit only one of {} schemas, but it fits {}",
                            nodes.len(),
                            places.join(" and ")
                        );
                        return SchemaVerdict::other(path, sentence);
                    }
                }
            }
            Keyword::Not(node) if self.enter(*node, value, path).fits() => {
                let sentence = "Field has a value that the schema excludes";
                return SchemaVerdict::other(path, sentence.to_owned());
            }
            Keyword::Conditional {
                condition,
                then,
                otherwise,
            } => {
                let said = self.enter(*condition, value, path);
                let next = if said.fits() {
                    verdict.absorb(said);
                    then
                } else {
                    otherwise
                };
                if let Some(next) = next {
                    verdict.absorb(self.enter(*next, value, path));
                }
            }
            _ => {}
        }
        verdict
    }

    /// Those of NODES that VALUE fits, by number, and what is wrong with the others.
    fn alternatives<'v>(
        &mut self,
        nodes: &[NodeId],
        value: &'v Value,
        path: &ValuePath<'_>,
    ) -> (Vec<(usize, SchemaVerdict<'v>)>, Vec<Vec<ValueProblem>>) {
        let mut fitting = Vec::new();
        let mut problems = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let said = self.enter(*node, value, path);
            if said.fits() {
                fitting.push((index, said));
            } else {
                problems.push(said.problems);
            }
        }
        (fitting, problems)
    }

    fn array<'v>(
        &mut self,
        keyword: &Keyword,
        elements: &'v [Value],
        path: &ValuePath<'_>,
        before: &SchemaVerdict<'v>,
    ) -> SchemaVerdict<'v> {
        match keyword {
            Keyword::ElementCount(bound) => counted(bound, elements.len(), "elements", path),
            Keyword::DifferentElements => different(elements, path),
            Keyword::Elements { first, others } => {
                let mut verdict = SchemaVerdict::default();
                for (index, (element, node)) in elements.iter().zip(first).enumerate() {
                    let said = self.enter(*node, element, &ValuePath::Element(path, index));
                    verdict.problems.extend(said.problems);
                    self.note_element(&mut verdict, index);
                }
                if let Some(others) = others {
                    let rest = (first.len()..elements.len()).collect();
                    verdict.absorb(self.other_elements(*others, elements, rest, path));
                }
                verdict
            }
            Keyword::Contains {
                element,
                at_least,
                at_most,
            } => self.contains(*element, (*at_least, *at_most), elements, path),
            Keyword::OtherElements(others) => {
                let rest = (0..elements.len())
                    .filter(|index| !before.elements.contains(index))
                    .collect();
                self.other_elements(*others, elements, rest, path)
            }
            _ => SchemaVerdict::default(),
        }
    }

    fn other_elements<'v>(
        &mut self,
        others: Others,
        elements: &'v [Value],
        rest: Vec<usize>,
        path: &ValuePath<'_>,
    ) -> SchemaVerdict<'v> {
        let mut verdict = SchemaVerdict::default();
        match others {
            Others::Forbidden => {
                if let Some(first) = rest.first() {
                    let sentence = format!("no element is allowed from index {first} on");
                    return SchemaVerdict::other(path, sentence);
                }
            }
            Others::Fit(node) => {
                for index in rest {
                    let said = self.enter(node, &elements[index], &ValuePath::Element(path, index));
                    verdict.problems.extend(said.problems);
                    self.note_element(&mut verdict, index);
                }
            }
        }
        verdict
    }

    fn contains<'v>(
        &mut self,
        node: NodeId,
        (at_least, at_most): (u64, Option<u64>),
        elements: &'v [Value],
        path: &ValuePath<'_>,
    ) -> SchemaVerdict<'v> {
        let mut verdict = SchemaVerdict::default();
        let mut count = 0;
        for (index, element) in elements.iter().enumerate() {
            if self
                .enter(node, element, &ValuePath::Element(path, index))
                .fits()
            {
                count += 1;
                self.note_element(&mut verdict, index);
            }
        }
        if count < at_least || at_most.is_some_and(|most| count > most) {
            let most = at_most.map_or_else(String::new, |most| format!(" and at most {most}"));
            let sentence = format!(
                "Field must have at least {at_least}{most} elements of a kind that the schema names, but it has {count}"
            );
            return SchemaVerdict::other(path, sentence);
        }
        verdict
    }

    fn object<'v>(
        &mut self,
        keyword: &Keyword,
        value: &'v Value,
        members: &'v Map<String, Value>,
        path: &ValuePath<'_>,
        before: &SchemaVerdict<'v>,
    ) -> SchemaVerdict<'v> {
        match keyword {
            Keyword::MemberCount(bound) => counted(bound, members.len(), "members", path),
            Keyword::Required(names) => missing(names, members, path),
            Keyword::RequiredWith(name, names) if members.contains_key(name) => {
                missing(names, members, path)
            }
            Keyword::FitWith(name, node) if members.contains_key(name) => {
                self.enter(*node, value, path)
            }
            Keyword::MemberNames(node) => {
                let mut verdict = SchemaVerdict::default();
                for name in members.keys() {
                    let text = Value::String(name.clone());
                    let said = self.enter(*node, &text, &ValuePath::Member(path, name));
                    verdict.problems.extend(said.problems);
                }
                verdict
            }
            Keyword::Members {
                named,
                patterns,
                others,
            } => self.members(named, patterns, *others, members, path),
            Keyword::OtherMembers(others) => {
                let rest = members
                    .iter()
                    .filter(|(name, _)| !before.members.contains(name.as_str()));
                self.other_members(*others, rest.collect(), &[], path)
            }
            _ => SchemaVerdict::default(),
        }
    }

    fn members<'v>(
        &mut self,
        named: &[(String, NodeId)],
        patterns: &[(SchemaPattern, NodeId)],
        others: Option<Others>,
        members: &'v Map<String, Value>,
        path: &ValuePath<'_>,
    ) -> SchemaVerdict<'v> {
        let mut verdict = SchemaVerdict::default();
        let mut rest: Vec<(&'v String, &'v Value)> = Vec::new();
        for (name, value) in members {
            let by_name = named
                .iter()
                .filter(|(known, _)| known == name)
                .map(|(_, node)| *node);
            let by_pattern = patterns
                .iter()
                .filter(|(pattern, _)| pattern.find_in(name) != Match::Absent)
                .map(|(_, node)| *node);
            let nodes: Vec<NodeId> = by_name.chain(by_pattern).collect();
            if nodes.is_empty() {
                rest.push((name, value));
                continue;
            }
            for node in nodes {
                let said = self.enter(node, value, &ValuePath::Member(path, name));
                verdict.problems.extend(said.problems);
            }
            self.note_member(&mut verdict, name);
        }
        if let Some(others) = others {
            verdict.absorb(self.other_members(others, rest, named, path));
        }
        verdict
    }

    fn other_members<'v>(
        &mut self,
        others: Others,
        rest: Vec<(&'v String, &'v Value)>,
        named: &[(String, NodeId)],
        path: &ValuePath<'_>,
    ) -> SchemaVerdict<'v> {
        let mut verdict = SchemaVerdict::default();
        match others {
            Others::Forbidden if rest.is_empty() => {}
            Others::Forbidden => {
                let names = rest.iter().map(|(name, _)| (*name).clone()).collect();
                let known = named.iter().map(|(name, _)| name.clone()).collect();
                return SchemaVerdict::fault(path, Fault::Unexpected { names, known });
            }
            Others::Fit(node) => {
                for (name, value) in rest {
                    let said = self.enter(node, value, &ValuePath::Member(path, name));
                    verdict.problems.extend(said.problems);
                    self.note_member(&mut verdict, name);
                }
            }
        }
        verdict
    }

    fn note_member<'v>(&self, verdict: &mut SchemaVerdict<'v>, name: &'v str) {
        if self.schema.evaluated == Evaluated::Asked {
            verdict.members.insert(name);
        }
    }

    fn note_element(&self, verdict: &mut SchemaVerdict<'_>, index: usize) {
        if self.schema.evaluated == Evaluated::Asked {
            verdict.elements.insert(index);
        }
    }
}

// The keywords that look at a value by itself: types, constants, bounds, patterns.

fn of_types<'v>(types: &[Type], value: &Value, path: &ValuePath<'_>) -> SchemaVerdict<'v> {
    let fits = |kind: &Type| match (kind, value) {
        (Type::Null, Value::Null)
        | (Type::Boolean, Value::Bool(_))
        | (Type::Number, Value::Number(_))
        | (Type::String, Value::String(_))
        | (Type::Array, Value::Array(_))
        | (Type::Object, Value::Object(_)) => true,
        (Type::Integer, Value::Number(number)) => Decimal::of(number).is_integer(),
        _ => false,
    };
    if types.iter().any(fits) {
        return SchemaVerdict::default();
    }
    let expected: Vec<&str> = types.iter().map(|kind| kind.with_article()).collect();
    let fault = Fault::Type {
        expected: expected.join(" or "),
        found: kind_of(value),
    };
    SchemaVerdict::fault(path, fault)
}

fn among<'v>(constants: &[Constant], value: &Value, path: &ValuePath<'_>) -> SchemaVerdict<'v> {
    let own = canonical(value);
    if constants.iter().any(|constant| constant.canonical == own) {
        return SchemaVerdict::default();
    }
    let shown: Vec<&str> = constants
        .iter()
        .map(|constant| constant.shown.as_str())
        .collect();
    SchemaVerdict::other(path, format!("{value} is not one of {}", shown.join(", ")))
}

fn number_problem(keyword: &Keyword, number: &Decimal, shown: &Value) -> Option<String> {
    let (holds, expected) = match keyword {
        Keyword::Number(Bound::AtLeast(bound)) => (number >= bound, format!("at least {bound}")),
        Keyword::Number(Bound::AtMost(bound)) => (number <= bound, format!("at most {bound}")),
        Keyword::Number(Bound::Above(bound)) => (number > bound, format!("more than {bound}")),
        Keyword::Number(Bound::Below(bound)) => (number < bound, format!("less than {bound}")),
        Keyword::MultipleOf(divisor) => (
            number.is_multiple_of(divisor),
            format!("a multiple of {divisor}"),
        ),
        _ => return None,
    };
    (!holds).then(|| format!("Field must be {expected}, but it is {shown}"))
}

fn counted<'v>(
    bound: &Bound<u64>,
    count: usize,
    what: &str,
    path: &ValuePath<'_>,
) -> SchemaVerdict<'v> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let (holds, expected) = match bound {
        Bound::AtLeast(least) => (count >= *least, format!("at least {least}")),
        Bound::AtMost(most) => (count <= *most, format!("at most {most}")),
        Bound::Above(bound) => (count > *bound, format!("more than {bound}")),
        Bound::Below(bound) => (count < *bound, format!("less than {bound}")),
    };
    if holds {
        return SchemaVerdict::default();
    }
    SchemaVerdict::other(
        path,
        format!("Field must have {expected} {what}, but it has {count}"),
    )
}

fn shaped<'v>(pattern: &SchemaPattern, text: &str, path: &ValuePath<'_>) -> SchemaVerdict<'v> {
    match pattern.find_in(text) {
        Match::Found => SchemaVerdict::default(),
        Match::Absent => SchemaVerdict::other(
            path,
            format!("Field must match the pattern {}", pattern.source),
        ),
        Match::GaveUp => SchemaVerdict::other(
            path,
            format!("the pattern {} takes too long to match", pattern.source),
        ),
    }
}

fn different<'v>(elements: &[Value], path: &ValuePath<'_>) -> SchemaVerdict<'v> {
    let mut seen = HashSet::new();
    match elements
        .iter()
        .find(|element| !seen.insert(canonical(element)))
    {
        None => SchemaVerdict::default(),
        Some(twice) => SchemaVerdict::other(
            path,
            format!("Field must have different elements, but it has {twice} twice"),
        ),
    }
}

fn missing<'v>(
    names: &[String],
    members: &Map<String, Value>,
    path: &ValuePath<'_>,
) -> SchemaVerdict<'v> {
    let mut verdict = SchemaVerdict::default();
    for name in names.iter().filter(|name| !members.contains_key(*name)) {
        verdict.absorb(SchemaVerdict::fault(path, Fault::Missing(name.clone())));
    }
    verdict
}

// What a schema says of a value: its problems with their paths, and what it looked at.

/// The way to a value, as a reader would write it: `address.city`, `items[2]`.
enum ValuePath<'p> {
    Root,
    Member(&'p ValuePath<'p>, &'p str),
    Element(&'p ValuePath<'p>, usize),
}

impl std::fmt::Display for ValuePath<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ValuePath::Root => Ok(()),
            ValuePath::Member(ValuePath::Root, name) => formatter.write_str(name),
            ValuePath::Member(parent, name) => write!(formatter, "{parent}.{name}"),
            ValuePath::Element(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

/// What one schema, or one keyword of it, says of a value.
#[derive(Default)]
struct SchemaVerdict<'v> {
    pub(super) problems: Vec<ValueProblem>,
    /// The members and elements that it looked at.
    pub(super) members: HashSet<&'v str>,
    pub(super) elements: HashSet<usize>,
}

impl<'v> SchemaVerdict<'v> {
    pub(super) fn fault(path: &ValuePath<'_>, fault: Fault) -> Self {
        let path = path.to_string();
        Self {
            problems: vec![ValueProblem { path, fault }],
            ..Self::default()
        }
    }

    pub(super) fn other(path: &ValuePath<'_>, sentence: String) -> Self {
        Self::fault(path, Fault::Other(sentence))
    }

    pub(super) fn fits(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn absorb(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.members.extend(other.members);
        self.elements.extend(other.elements);
    }
}
