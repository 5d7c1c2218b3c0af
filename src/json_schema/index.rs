// SPDX-License-Identifier: GPL-3.0-or-later
//! Identifiers, anchors and what references to them mean. A schema may hold others that have
//! identifiers of their own; each is a resource.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use url::Url;

use super::SchemaError;
use super::schema::ResourceId;

/// The base of a schema that says none: one that nobody else has.
const NO_IDENTIFIER: &str = "agent-q-schema:///";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    /// And 6, which differs in nothing that matters here.
    Seven,
    Of2019,
    Of2020,
}

impl Draft {
    fn named(name: &str) -> Option<Self> {
        let name = name.trim_end_matches('#');
        let name = name.split_once("://").map_or(name, |(_, name)| name);
        Some(match name {
            "json-schema.org/draft-04/schema" => Self::Four,
            "json-schema.org/draft-06/schema" | "json-schema.org/draft-07/schema" => Self::Seven,
            "json-schema.org/draft/2019-09/schema" => Self::Of2019,
            "json-schema.org/draft/2020-12/schema" => Self::Of2020,
            _ => return None,
        })
    }

    fn identifier(self) -> &'static str {
        if self == Self::Four { "id" } else { "$id" }
    }
}

/// A place in the schema that is compiled: a schema, what it belongs to, and its pointer.
#[derive(Debug, Clone)]
pub(super) struct Spot<'s> {
    pub(super) value: &'s Value,
    pub(super) resource: ResourceId,
    pub(super) pointer: String,
}

/// What a reference leads to.
pub(super) enum Target<'s> {
    Spot(Spot<'s>),
    /// The schema of schemas.
    SchemaItself,
}

struct Known<'s> {
    base: Url,
    draft: Draft,
    root: Spot<'s>,
    anchors: HashMap<&'s str, Spot<'s>>,
    /// Those of the anchors that `$dynamicRef` looks for; one without a name is `$recursiveAnchor`.
    dynamic: Vec<(&'s str, Spot<'s>)>,
}

/// All resources of a schema.
pub(super) struct Index<'s> {
    resources: Vec<Known<'s>>,
    by_url: HashMap<Url, ResourceId>,
    /// Every schema in it, once.
    pub(super) schemas: Vec<Spot<'s>>,
}

impl<'s> Index<'s> {
    pub(super) fn of(schema: &'s Value) -> Result<Self, SchemaError> {
        let base = Url::parse(NO_IDENTIFIER).map_err(|error| SchemaError {
            pointer: String::new(),
            message: error.to_string(),
        })?;
        let mut index = Self {
            resources: Vec::new(),
            by_url: HashMap::new(),
            schemas: Vec::new(),
        };
        let root = index.add(base, Draft::Of2020, schema, String::new());
        let mut left = vec![Spot {
            value: schema,
            resource: root,
            pointer: String::new(),
        }];
        while let Some(mut spot) = left.pop() {
            if let Some(object) = spot.value.as_object() {
                index.enter(object, &mut spot)?;
                for (path, value) in subschemas(object) {
                    left.push(Spot {
                        value,
                        resource: spot.resource,
                        pointer: format!("{}/{path}", spot.pointer),
                    });
                }
            }
            index.schemas.push(spot);
        }
        Ok(index)
    }

    fn add(&mut self, base: Url, draft: Draft, value: &'s Value, pointer: String) -> ResourceId {
        let resource = ResourceId(self.resources.len());
        self.by_url.insert(base.clone(), resource);
        self.resources.push(Known {
            base,
            draft,
            root: Spot {
                value,
                resource,
                pointer,
            },
            anchors: HashMap::new(),
            dynamic: Vec::new(),
        });
        resource
    }

    /// Notes the draft, identifier and anchors of OBJECT, which may start a resource at SPOT.
    fn enter(
        &mut self,
        object: &'s Map<String, Value>,
        spot: &mut Spot<'s>,
    ) -> Result<(), SchemaError> {
        let whole = spot.pointer.is_empty();
        let parent = self.draft(spot.resource);
        // A dialect of somebody's own is built on the latest draft, as far as anyone can know.
        let declared = object.get("$schema").and_then(Value::as_str);
        let declared = declared.map(|name| Draft::named(name).unwrap_or(Draft::Of2020));
        let draft = declared.unwrap_or(parent);
        if whole {
            self.resources[spot.resource.0].draft = draft;
        }
        // Up to draft 7, what stands beside a reference does not count.
        let counts = draft > Draft::Seven || !object.contains_key("$ref");
        if let Some(identifier) = object.get(draft.identifier()).and_then(Value::as_str)
            && counts
        {
            match identifier.strip_prefix('#') {
                Some(anchor) if !anchor.is_empty() => self.anchor(anchor, spot),
                _ => self.identify(identifier, draft, spot)?,
            }
        }
        for name in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = object.get(name).and_then(Value::as_str) {
                self.anchor(anchor, spot);
                if name == "$dynamicAnchor" {
                    self.resources[spot.resource.0]
                        .dynamic
                        .push((anchor, spot.clone()));
                }
            }
        }
        if object.get("$recursiveAnchor") == Some(&Value::Bool(true)) && draft == Draft::Of2019 {
            self.resources[spot.resource.0]
                .dynamic
                .push(("", spot.clone()));
        }
        Ok(())
    }

    fn identify(
        &mut self,
        identifier: &str,
        draft: Draft,
        spot: &mut Spot<'s>,
    ) -> Result<(), SchemaError> {
        let mut base = self.join(spot, identifier)?;
        base.set_fragment(None);
        if spot.pointer.is_empty() {
            self.by_url.insert(base.clone(), spot.resource);
            self.resources[spot.resource.0].base = base;
        } else {
            spot.resource = self.add(base, draft, spot.value, spot.pointer.clone());
        }
        Ok(())
    }

    fn anchor(&mut self, name: &'s str, spot: &Spot<'s>) {
        self.resources[spot.resource.0]
            .anchors
            .insert(name, spot.clone());
    }

    fn join(&self, spot: &Spot<'s>, reference: &str) -> Result<Url, SchemaError> {
        self.resources[spot.resource.0]
            .base
            .join(reference)
            .map_err(|error| SchemaError {
                pointer: spot.pointer.clone(),
                message: format!("{reference:?} is not a URI reference: {error}"),
            })
    }

    pub(super) fn draft(&self, resource: ResourceId) -> Draft {
        self.resources[resource.0].draft
    }

    /// The anchors of each resource that dynamic references look for.
    pub(super) fn dynamic_anchors(&self) -> Vec<Vec<(&'s str, Spot<'s>)>> {
        self.resources
            .iter()
            .map(|known| known.dynamic.clone())
            .collect()
    }

    /// Whether ANCHOR of RESOURCE is one that dynamic references look for.
    pub(super) fn is_dynamic(&self, resource: ResourceId, anchor: &str) -> bool {
        self.resources[resource.0]
            .dynamic
            .iter()
            .any(|(name, _)| *name == anchor)
    }

    /// What REFERENCE, which stands at SPOT, leads to.
    pub(super) fn resolve(
        &self,
        reference: &str,
        spot: &Spot<'s>,
    ) -> Result<Target<'s>, SchemaError> {
        let error = |message: String| SchemaError {
            pointer: spot.pointer.clone(),
            message,
        };
        let mut url = self.join(spot, reference)?;
        let fragment = url.fragment().unwrap_or_default().to_owned();
        url.set_fragment(None);
        let Some(known) = self.by_url.get(&url).map(|id| &self.resources[id.0]) else {
            return match Draft::named(url.as_str()) {
                Some(_) if fragment.is_empty() => Ok(Target::SchemaItself),
                _ => Err(error(format!(
                    "it refers to {url}, and references are not fetched"
                ))),
            };
        };
        let fragment = percent_decode_str(&fragment).decode_utf8_lossy();
        let found = if fragment.is_empty() {
            Some(known.root.clone())
        } else if fragment.starts_with('/') {
            self.follow(&known.root, &fragment)
        } else {
            known.anchors.get(fragment.as_ref()).cloned()
        };
        found
            .map(Target::Spot)
            .ok_or_else(|| error(format!("{reference} leads to nothing in the schema")))
    }

    /// What POINTER leads to from ROOT. On its way it may enter other resources.
    fn follow(&self, root: &Spot<'s>, pointer: &str) -> Option<Spot<'s>> {
        let mut spot = root.clone();
        for step in pointer.split('/').skip(1) {
            let name = step.replace("~1", "/").replace("~0", "~");
            spot.value = match spot.value {
                Value::Object(members) => members.get(&name)?,
                Value::Array(elements) => elements.get(name.parse::<usize>().ok()?)?,
                _ => return None,
            };
            spot.pointer = format!("{}/{step}", spot.pointer);
            if let Some(known) = self
                .resources
                .iter()
                .find(|known| std::ptr::eq(known.root.value, spot.value))
            {
                spot.resource = known.root.resource;
            }
        }
        Some(spot)
    }
}

/// The schemas that stand directly in a schema, each with the rest of its pointer.
fn subschemas(object: &Map<String, Value>) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (keyword, value) in object {
        match (keyword.as_str(), value) {
            ("items" | "allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                let places = schemas.iter().enumerate();
                found.extend(places.map(|(index, schema)| (format!("{keyword}/{index}"), schema)));
            }
            (
                "items"
                | "additionalItems"
                | "additionalProperties"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contains"
                | "contentSchema"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else",
                schema,
            ) => found.push((keyword.clone(), schema)),
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(schemas),
            ) => {
                let schemas = schemas.iter().filter(|(_, schema)| !schema.is_array());
                found.extend(schemas.map(|(name, schema)| {
                    (
                        format!("{keyword}/{}", name.replace('~', "~0").replace('/', "~1")),
                        schema,
                    )
                }));
            }
            _ => {}
        }
    }
    found
}
