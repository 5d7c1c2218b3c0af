// SPDX-License-Identifier: GPL-3.0-or-later
//! Makes keywords of a schema. What is used wrong is an error with its place, so whatever compiles
//! is a schema.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::decimal::{Decimal, canonical};
use super::index::{Draft, Index, Spot, Target};
use super::pattern::SchemaPattern;
use super::schema::{
    Bound, Constant, Evaluated, Keyword, NodeId, Others, Resource, Schema, SchemaError, SchemaNode,
    Type,
};

impl Schema {
    /// Compiles SCHEMA, of the draft that its `$schema` names, 2020-12 without one.
    ///
    /// # Errors
    ///
    /// The first keyword that is used wrong, or reference to something outside of the schema.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        compile(schema)
    }
}

fn compile(schema: &Value) -> Result<Schema, SchemaError> {
    let index = Index::of(schema)?;
    let spots: HashMap<*const Value, Spot<'_>> = index
        .schemas
        .iter()
        .map(|spot| (std::ptr::from_ref(spot.value), spot.clone()))
        .collect();
    let mut compiler = Compiler {
        index: &index,
        spots: &spots,
        ids: HashMap::new(),
        waiting: Vec::new(),
        evaluated: Evaluated::Unasked,
    };
    let root = compiler.node_at(&spots[&std::ptr::from_ref(schema)]);
    for spot in &index.schemas {
        compiler.node_at(spot);
    }
    let mut resources = Vec::new();
    for anchors in index.dynamic_anchors() {
        let anchors = anchors.iter();
        resources.push(Resource {
            dynamic_anchors: anchors
                .map(|(name, spot)| ((*name).to_owned(), compiler.node_at(spot)))
                .collect(),
        });
    }
    let nodes = compiler.nodes()?;
    Ok(Schema {
        nodes,
        resources,
        root,
        evaluated: compiler.evaluated,
    })
}

struct Compiler<'i, 's> {
    index: &'i Index<'s>,
    spots: &'i HashMap<*const Value, Spot<'s>>,
    ids: HashMap<*const Value, NodeId>,
    /// The schemas that have numbers, in the order of these.
    waiting: Vec<Spot<'s>>,
    evaluated: Evaluated,
}

impl<'s> Compiler<'_, 's> {
    fn node_at(&mut self, spot: &Spot<'s>) -> NodeId {
        let waiting = &mut self.waiting;
        *self
            .ids
            .entry(std::ptr::from_ref(spot.value))
            .or_insert_with(|| {
                waiting.push(spot.clone());
                NodeId(waiting.len() - 1)
            })
    }

    /// Compiles until no schema is left that another one asked for.
    fn nodes(&mut self) -> Result<Vec<SchemaNode>, SchemaError> {
        let mut nodes = Vec::new();
        while let Some(spot) = self.waiting.get(nodes.len()).cloned() {
            let keywords = match spot.value {
                Value::Bool(true) => Vec::new(),
                Value::Bool(false) => vec![Keyword::Never],
                Value::Object(object) => Keywords {
                    compiler: self,
                    object,
                    spot: &spot,
                }
                .all()?,
                other => {
                    return Err(wrong(
                        &spot.pointer,
                        other,
                        "a schema: an object, true or false",
                    ));
                }
            };
            nodes.push(SchemaNode {
                resource: spot.resource,
                keywords,
            });
        }
        Ok(nodes)
    }
}

/// The keywords of one schema.
struct Keywords<'c, 'i, 's> {
    compiler: &'c mut Compiler<'i, 's>,
    object: &'s Map<String, Value>,
    spot: &'c Spot<'s>,
}

impl<'s> Keywords<'_, '_, 's> {
    fn all(mut self) -> Result<Vec<Keyword>, SchemaError> {
        let mut found = Vec::new();
        self.references(&mut found)?;
        if self.draft() <= Draft::Seven && self.object.contains_key("$ref") {
            return Ok(found);
        }
        self.any_value(&mut found)?;
        self.numbers(&mut found)?;
        self.strings(&mut found)?;
        self.arrays(&mut found)?;
        self.objects(&mut found)?;
        self.combinations(&mut found)?;
        if let Some(others) = self.others("unevaluatedItems")? {
            self.compiler.evaluated = Evaluated::Asked;
            found.push(Keyword::OtherElements(others));
        }
        if let Some(others) = self.others("unevaluatedProperties")? {
            self.compiler.evaluated = Evaluated::Asked;
            found.push(Keyword::OtherMembers(others));
        }
        Ok(found)
    }

    fn references(&mut self, found: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        if let Some(reference) = self.text("$ref")? {
            found.push(match self.compiler.index.resolve(reference, self.spot)? {
                Target::Spot(spot) => Keyword::Reference(self.compiler.node_at(&spot)),
                Target::SchemaItself => Keyword::SchemaItself,
            });
        }
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = self.text(keyword)? {
                found.push(self.dynamic(reference)?);
            }
        }
        Ok(())
    }

    fn dynamic(&mut self, reference: &str) -> Result<Keyword, SchemaError> {
        let spot = match self.compiler.index.resolve(reference, self.spot)? {
            Target::Spot(spot) => spot,
            Target::SchemaItself => return Ok(Keyword::SchemaItself),
        };
        let anchor = reference
            .split_once('#')
            .map_or("", |(_, anchor)| anchor)
            .to_owned();
        let fallback = self.compiler.node_at(&spot);
        Ok(if self.compiler.index.is_dynamic(spot.resource, &anchor) {
            Keyword::DynamicReference { anchor, fallback }
        } else {
            Keyword::Reference(fallback)
        })
    }

    fn any_value(&mut self, found: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        if let Some(types) = self.object.get("type") {
            found.push(Keyword::Types(self.types(types)?));
        }
        if let Some(constants) = self.object.get("enum") {
            let constants = constants
                .as_array()
                .ok_or_else(|| self.wrong("enum", "an array"))?;
            found.push(Keyword::OneOfConstants(
                constants.iter().map(constant).collect(),
            ));
        }
        if let Some(value) = self.object.get("const") {
            found.push(Keyword::OneOfConstants(vec![constant(value)]));
        }
        Ok(())
    }

    fn types(&self, types: &Value) -> Result<Vec<Type>, SchemaError> {
        let names = match types {
            Value::Array(names) if !names.is_empty() => names.as_slice(),
            other => std::slice::from_ref(other),
        };
        let known =
            "a type: null, boolean, number, integer, string, array, object or several of them";
        names
            .iter()
            .map(|name| {
                name.as_str()
                    .and_then(Type::named)
                    .ok_or_else(|| self.wrong("type", known))
            })
            .collect()
    }

    fn numbers(&mut self, found: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        let exclusive = |keyword: &str| self.object.get(keyword) == Some(&Value::Bool(true));
        let (above, below) = (exclusive("exclusiveMinimum"), exclusive("exclusiveMaximum"));
        if let Some(number) = self.number("minimum")? {
            found.push(Keyword::Number(if above {
                Bound::Above(number)
            } else {
                Bound::AtLeast(number)
            }));
        }
        if let Some(number) = self.number("maximum")? {
            found.push(Keyword::Number(if below {
                Bound::Below(number)
            } else {
                Bound::AtMost(number)
            }));
        }
        if self.draft() != Draft::Four {
            if let Some(number) = self.number("exclusiveMinimum")? {
                found.push(Keyword::Number(Bound::Above(number)));
            }
            if let Some(number) = self.number("exclusiveMaximum")? {
                found.push(Keyword::Number(Bound::Below(number)));
            }
        }
        if let Some(number) = self.number("multipleOf")? {
            if !number.is_positive() {
                return Err(self.wrong("multipleOf", "a number above 0"));
            }
            found.push(Keyword::MultipleOf(number));
        }
        Ok(())
    }

    fn strings(&mut self, found: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        found.extend(self.bounds("minLength", "maxLength")?.map(Keyword::Length));
        if let Some(source) = self.text("pattern")? {
            found.push(Keyword::Pattern(self.pattern("pattern", source)?));
        }
        Ok(())
    }

    fn arrays(&mut self, found: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        found.extend(
            self.bounds("minItems", "maxItems")?
                .map(Keyword::ElementCount),
        );
        match self.object.get("uniqueItems") {
            Some(Value::Bool(true)) => found.push(Keyword::DifferentElements),
            Some(Value::Bool(false)) | None => {}
            Some(_) => return Err(self.wrong("uniqueItems", "true or false")),
        }
        let listed =
            self.draft() < Draft::Of2020 && self.object.get("items").is_some_and(Value::is_array);
        let (first, others) = if listed {
            (self.schemas("items")?, self.others("additionalItems")?)
        } else if self.draft() < Draft::Of2020 {
            (Vec::new(), self.others("items")?)
        } else {
            (self.schemas("prefixItems")?, self.others("items")?)
        };
        if !first.is_empty() || others.is_some() {
            found.push(Keyword::Elements { first, others });
        }
        if let Some(element) = self.schema("contains")? {
            found.push(Keyword::Contains {
                element,
                at_least: self.count("minContains")?.unwrap_or(1),
                at_most: self.count("maxContains")?,
            });
        }
        Ok(())
    }

    fn objects(&mut self, found: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        found.extend(
            self.bounds("minProperties", "maxProperties")?
                .map(Keyword::MemberCount),
        );
        if let Some(names) = self.object.get("required") {
            // Draft 3, which said so beside each property, is what people still write by mistake.
            let names = self.texts("required", names)?;
            found.push(Keyword::Required(names));
        }
        let named = self.members("properties")?;
        let mut patterns = Vec::new();
        for (source, schema) in self.members("patternProperties")? {
            patterns.push((self.pattern("patternProperties", &source)?, schema));
        }
        let others = self.others("additionalProperties")?;
        if !named.is_empty() || !patterns.is_empty() || others.is_some() {
            found.push(Keyword::Members {
                named,
                patterns,
                others,
            });
        }
        if let Some(names) = self.schema("propertyNames")? {
            found.push(Keyword::MemberNames(names));
        }
        self.dependencies(found)
    }

    fn dependencies(&mut self, found: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            for (name, value) in self.map(keyword)? {
                found.push(if value.is_array() {
                    Keyword::RequiredWith(name.clone(), self.texts(keyword, value)?)
                } else {
                    let child = format!("{keyword}/{name}");
                    Keyword::FitWith(name.clone(), self.child(&child, value))
                });
            }
        }
        Ok(())
    }

    fn combinations(&mut self, found: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        type Combination = fn(Vec<NodeId>) -> Keyword;
        let combinations: [(&str, Combination); 3] = [
            ("allOf", Keyword::AllOf),
            ("anyOf", Keyword::AnyOf),
            ("oneOf", Keyword::OneOf),
        ];
        for (keyword, combination) in combinations {
            if self.object.contains_key(keyword) {
                found.push(combination(self.schemas(keyword)?));
            }
        }
        found.extend(self.schema("not")?.map(Keyword::Not));
        if let Some(condition) = self.schema("if")? {
            found.push(Keyword::Conditional {
                condition,
                then: self.schema("then")?,
                otherwise: self.schema("else")?,
            });
        }
        Ok(())
    }

    fn draft(&self) -> Draft {
        self.compiler.index.draft(self.spot.resource)
    }

    fn wrong(&self, keyword: &str, expected: &str) -> SchemaError {
        let value = self.object.get(keyword).unwrap_or(&Value::Null);
        wrong(&format!("{}/{keyword}", self.spot.pointer), value, expected)
    }

    fn text(&self, keyword: &str) -> Result<Option<&'s str>, SchemaError> {
        let value = self.object.get(keyword);
        value
            .map(|value| {
                value
                    .as_str()
                    .ok_or_else(|| self.wrong(keyword, "a string"))
            })
            .transpose()
    }

    fn texts(&self, keyword: &str, value: &Value) -> Result<Vec<String>, SchemaError> {
        let texts = value.as_array().and_then(|texts| {
            let texts = texts.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>()
        });
        texts.ok_or_else(|| self.wrong(keyword, "an array of names"))
    }

    fn pattern(&self, keyword: &str, source: &str) -> Result<SchemaPattern, SchemaError> {
        SchemaPattern::compile(source).map_err(|message| SchemaError {
            pointer: format!("{}/{keyword}", self.spot.pointer),
            message,
        })
    }

    fn number(&self, keyword: &str) -> Result<Option<Decimal>, SchemaError> {
        match self.object.get(keyword) {
            Some(Value::Number(number)) => Ok(Some(Decimal::of(number))),
            Some(_) => Err(self.wrong(keyword, "a number")),
            None => Ok(None),
        }
    }

    fn count(&self, keyword: &str) -> Result<Option<u64>, SchemaError> {
        let number = self.number(keyword)?;
        number
            .map(|number| {
                number
                    .count()
                    .ok_or_else(|| self.wrong(keyword, "a count: an integer from 0"))
            })
            .transpose()
    }

    fn bounds(
        &self,
        least: &str,
        most: &str,
    ) -> Result<impl Iterator<Item = Bound<u64>> + use<>, SchemaError> {
        let least = self.count(least)?.map(Bound::AtLeast);
        Ok(least
            .into_iter()
            .chain(self.count(most)?.map(Bound::AtMost)))
    }

    fn map(&self, keyword: &str) -> Result<Vec<(&'s String, &'s Value)>, SchemaError> {
        match self.object.get(keyword) {
            Some(Value::Object(map)) => Ok(map.iter().collect()),
            Some(_) => Err(self.wrong(keyword, "an object")),
            None => Ok(Vec::new()),
        }
    }

    /// The node of VALUE, the schema at PATH from here.
    fn child(&mut self, path: &str, value: &'s Value) -> NodeId {
        let known = self.compiler.spots.get(&std::ptr::from_ref(value)).cloned();
        let spot = known.unwrap_or_else(|| Spot {
            value,
            resource: self.spot.resource,
            pointer: format!("{}/{path}", self.spot.pointer),
        });
        self.compiler.node_at(&spot)
    }

    fn schema(&mut self, keyword: &str) -> Result<Option<NodeId>, SchemaError> {
        let value = self.object.get(keyword);
        Ok(value.map(|value| self.child(keyword, value)))
    }

    fn others(&mut self, keyword: &str) -> Result<Option<Others>, SchemaError> {
        Ok(match self.object.get(keyword) {
            Some(Value::Bool(false)) => Some(Others::Forbidden),
            _ => self.schema(keyword)?.map(Others::Fit),
        })
    }

    fn schemas(&mut self, keyword: &str) -> Result<Vec<NodeId>, SchemaError> {
        match self.object.get(keyword) {
            Some(Value::Array(schemas)) => {
                let schemas = schemas.iter().enumerate();
                Ok(schemas
                    .map(|(index, schema)| self.child(&format!("{keyword}/{index}"), schema))
                    .collect())
            }
            Some(_) => Err(self.wrong(keyword, "an array of schemas")),
            None => Ok(Vec::new()),
        }
    }

    fn members(&mut self, keyword: &str) -> Result<Vec<(String, NodeId)>, SchemaError> {
        let members = self.map(keyword)?.into_iter();
        Ok(members
            .map(|(name, schema)| {
                (
                    name.clone(),
                    self.child(&format!("{keyword}/{name}"), schema),
                )
            })
            .collect())
    }
}

fn constant(value: &Value) -> Constant {
    Constant {
        shown: value.to_string(),
        canonical: canonical(value),
    }
}

fn wrong(pointer: &str, value: &Value, expected: &str) -> SchemaError {
    SchemaError {
        pointer: pointer.to_owned(),
        message: format!("{value} is not {expected}"),
    }
}
