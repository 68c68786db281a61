//! A packet: a stack of layers.

use std::ops::Div;

use crate::build;
use crate::layer::{FieldError, Layer, Protocol};

/// A stack of layers, the outermost first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packet {
    layers: Vec<Layer>,
}

impl Packet {
    /// A packet without layers.
    pub fn new() -> Packet {
        Packet::default()
    }

    /// The layers, the outermost first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The layers, to change their fields.
    pub fn layers_mut(&mut self) -> &mut Vec<Layer> {
        &mut self.layers
    }

    /// Adds a layer inside the innermost one.
    pub fn push(&mut self, layer: impl Into<Layer>) {
        self.layers.push(layer.into());
    }

    /// The first layer with this name.
    pub fn layer(&self, name: &str) -> Option<&Layer> {
        self.layers.iter().find(|layer| has_name(layer, name))
    }

    /// The first layer with this name, to change its fields.
    pub fn layer_mut(&mut self, name: &str) -> Option<&mut Layer> {
        self.layers.iter_mut().find(|layer| has_name(layer, name))
    }

    /// Whether the packet has a layer with this name.
    pub fn has(&self, name: &str) -> bool {
        self.layer(name).is_some()
    }

    /// Sets a field of the first layer with this name.
    ///
    /// # Errors
    /// If the packet has no such layer, the layer no such field, or the field cannot have the value.
    pub fn set(
        &mut self,
        layer: &str,
        field: &str,
        value: impl Into<crate::Value>,
    ) -> Result<(), FieldError> {
        match self.layer_mut(layer) {
            Some(found) => found.try_set(field, value),
            None => Err(FieldError {
                layer: layer.to_owned(),
                field: field.to_owned(),
                problem: format!("the packet has no layer {layer}"),
            }),
        }
    }

    /// Leaves lengths, counts, checksums and ICRC of all layers to be computed when the packet is built. Protocol numbers and
    /// opcodes keep their values: several may have the same payload.
    pub fn clear_computed(&mut self) {
        self.layers.iter_mut().for_each(Layer::clear_all);
    }

    /// The bytes of the packet, with all computed fields.
    ///
    /// # Errors
    /// If a field was given a value that it cannot have.
    pub fn build(&self) -> Result<Vec<u8>, FieldError> {
        build::build(self).map(|(bytes, _)| bytes)
    }

    /// The packet with all fields computed, and padding inserted.
    ///
    /// # Errors
    /// As for [`Packet::build`].
    pub fn built(&self) -> Result<Packet, FieldError> {
        build::build(self).map(|(_, layers)| Packet { layers })
    }
}

pub(crate) fn has_name(layer: &Layer, name: &str) -> bool {
    is_called(layer.protocol(), name)
}

/// Whether a protocol has this name, or this other name; upper and lower case are equal.
pub(crate) fn is_called(protocol: &Protocol, name: &str) -> bool {
    protocol.name.eq_ignore_ascii_case(name)
        || protocol
            .aliases
            .iter()
            .any(|alias| alias.eq_ignore_ascii_case(name))
}

impl From<Layer> for Packet {
    fn from(layer: Layer) -> Packet {
        Packet {
            layers: vec![layer],
        }
    }
}

impl From<Vec<Layer>> for Packet {
    fn from(layers: Vec<Layer>) -> Packet {
        Packet { layers }
    }
}

/// A payload without structure.
impl From<&str> for Packet {
    fn from(text: &str) -> Packet {
        crate::Raw::bytes(text).into()
    }
}

impl<R: Into<Packet>> Div<R> for Packet {
    type Output = Packet;

    fn div(mut self, inner: R) -> Packet {
        self.layers.extend(inner.into().layers);
        self
    }
}

impl<R: Into<Packet>> Div<R> for Layer {
    type Output = Packet;

    fn div(self, inner: R) -> Packet {
        Packet::from(self) / inner
    }
}
