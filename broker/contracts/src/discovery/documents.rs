//! The retained messages of a catalogue.

use std::collections::BTreeSet;
use std::sync::Arc;

use tautwire_message::Format;

use super::{binding, index, schema, to_json};
use crate::catalogue::Catalogue;

/// A message that the broker retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The topic after `$SYS/contracts/`.
    pub name: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// Its format.
    pub format: Format,
}

/// The retained messages of a catalogue in publishing order: referenced documents before those that reference them, and the index last.
/// Each is created on demand, so that they can be published over many turns.
#[derive(Debug)]
pub struct Documents {
    catalogue: Arc<Catalogue>,
    /// The index of the first contract of each schema.
    schemas: Vec<usize>,
    next: usize,
    /// The JSON copy of the document returned last.
    json_variant: Option<Document>,
}

impl Documents {
    /// The documents of `catalogue`.
    pub fn of(catalogue: Arc<Catalogue>) -> Documents {
        let mut seen = BTreeSet::new();
        let contracts = catalogue.contracts().iter().enumerate();
        let schemas = contracts.filter(|(_, contract)| seen.insert(&*contract.schema().sha256)).map(|(at, _)| at);
        let schemas = schemas.collect();
        Documents { catalogue, schemas, next: 0, json_variant: None }
    }

    /// Creates the document at an index; `None` after the last.
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
