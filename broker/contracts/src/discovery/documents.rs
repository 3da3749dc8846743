//! The retained messages of a catalogue, one after the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use tautwire_message::Format;

use super::{binding, index, schema, to_json};
use crate::catalogue::Catalogue;

/// A message that the broker retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// What comes behind `$SYS/contracts/` in its topic.
    pub name: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// Its format.
    pub format: Format,
}

/// The retained messages of a catalogue in the order in which they are to be published: what is referred to before what
/// refers to it, and the index at the end. Each is made when it is asked for, so that they can be published over many turns.
#[derive(Debug)]
pub struct Documents {
    catalogue: Arc<Catalogue>,
    /// The place of the first contract of each schema.
    schemas: Vec<usize>,
    next: usize,
    /// The twin in JSON of the document given last.
    json_variant: Option<Document>,
}

impl Documents {
    /// Those of `catalogue`.
    pub fn of(catalogue: Arc<Catalogue>) -> Documents {
        let mut seen = BTreeSet::new();
        let contracts = catalogue.contracts().iter().enumerate();
        let schemas = contracts.filter(|(_, contract)| seen.insert(&*contract.schema().sha256)).map(|(at, _)| at);
        let schemas = schemas.collect();
        Documents { catalogue, schemas, next: 0, json_variant: None }
    }

    /// Makes the document at a place; `None` behind the last.
    fn make(&self, place: usize) -> Option<(String, &'static str, Vec<u8>)> {
        let contracts = self.catalogue.contracts();
        if let Some(&at) = self.schemas.get(place) {
            let contract = &contracts[at];
            return Some((format!("schemas/{}", contract.schema().sha256), "Schema", schema(contract).into_bytes()));
        }
        let place = place - self.schemas.len();
        if let Some(contract) = contracts.get(place) {
            return Some((format!("bindings/{}", contract.name()), "Binding", binding(contract).into_bytes()));
        }
        (place == contracts.len()).then(|| ("index".to_owned(), "Index", index(&self.catalogue).into_bytes()))
    }
}

impl Iterator for Documents {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        if let Some(json_variant) = self.json_variant.take() {
            return Some(json_variant);
        }
        let (name, root, payload) = self.make(self.next)?;
        self.next += 1;
        let json = to_json(root, &payload);
        self.json_variant = Some(Document { name: format!("{name}.json"), payload: json, format: Format::Json });
        Some(Document { name, payload, format: Format::Protobuf })
    }
}
