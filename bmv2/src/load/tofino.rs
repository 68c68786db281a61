//! Loading of programs for the Tofino Native Architecture: parsers and deparsers of both gresses (ingress and egress),
//! and intrinsic metadata.

use super::{LoadError, Loader};
use crate::exec::join::Join;
use crate::exec::ops::Pc;
use crate::program::{
    Chip, EgressMetadata, Front, Gress, IngressMetadata, Intrinsic, Meta, Tofino,
};
use alfirk_bmv2_json::{Expr, FieldList};
use rustc_hash::FxHashMap;

impl Loader<'_> {
    /// Returns the chip that a program is for; `None` for simple_switch.
    pub(super) fn chip(&self) -> Result<Option<Chip>, LoadError> {
        match self.json.architecture.as_deref() {
            None => Ok(None),
            Some("tna") => Ok(Some(Chip::Tofino)),
            Some("t2na") => Ok(Some(Chip::Tofino2)),
            Some(other) => Err(LoadError::invalid(
                "program",
                format!("architecture {other:?} is neither tna nor t2na"),
            )),
        }
    }

    /// Loads ingress and egress of a program for Tofino. `pipeline` returns the first instruction of a pipeline.
    pub(super) fn tofino(
        &mut self,
        chip: Chip,
        pipeline: impl Fn(&str) -> Result<Pc, LoadError>,
    ) -> Result<Tofino, LoadError> {
        let mut gresses = Vec::new();
        for (parser, control, deparser) in [
            ("ingress_parser", "ingress", "ingress_deparser"),
            ("egress_parser", "egress", "egress_deparser"),
        ] {
            gresses.push(Gress {
                parser: self.compile_parser(parser)?,
                control: pipeline(control)?,
                deparse: pipeline(deparser)?,
                deparser: self.compile_deparser(deparser)?,
            });
        }
        let [ingress, egress] = <[Gress; 2]>::try_from(gresses).expect("there are two");
        Ok(Tofino {
            chip,
            ingress,
            egress,
            ingress_metadata: self.ingress_metadata()?,
            egress_metadata: self.egress_metadata()?,
            fronts: self.fronts()?,
        })
    }

    fn ingress_metadata(&self) -> Result<IngressMetadata, LoadError> {
        let own = |field: &str| self.meta("ingress_intrinsic_metadata", field);
        let parser = |field: &str| self.meta("ingress_intrinsic_metadata_from_parser", field);
        let deparser = |field: &str| self.meta("ingress_intrinsic_metadata_for_deparser", field);
        let tm = |field: &str| self.meta("ingress_intrinsic_metadata_for_tm", field);
        Ok(IngressMetadata {
            header: self.header_of("ingress_intrinsic_metadata.ingress_port")?,
            ingress_port: own("ingress_port")?,
            resubmit_flag: own("resubmit_flag")?,
            mac_tstamp: own("ingress_mac_tstamp")?,
            global_tstamp: parser("global_tstamp")?,
            parser_err: parser("parser_err")?,
            drop_ctl: deparser("drop_ctl")?,
            mirror_type: deparser("mirror_type")?,
            resubmit_type: deparser("resubmit_type")?,
            digest_type: deparser("digest_type")?,
            ucast_egress_port: tm("ucast_egress_port")?,
            bypass_egress: tm("bypass_egress")?,
            qid: tm("qid")?,
            copy_to_cpu: tm("copy_to_cpu")?,
            mcast_grp_a: tm("mcast_grp_a")?,
            mcast_grp_b: tm("mcast_grp_b")?,
            level1_mcast_hash: tm("level1_mcast_hash")?,
            level2_mcast_hash: tm("level2_mcast_hash")?,
            level1_exclusion_id: tm("level1_exclusion_id")?,
            level2_exclusion_id: tm("level2_exclusion_id")?,
            rid: tm("rid")?,
        })
    }

    fn egress_metadata(&self) -> Result<EgressMetadata, LoadError> {
        let own = |field: &str| self.meta("egress_intrinsic_metadata", field);
        let parser = |field: &str| self.meta("egress_intrinsic_metadata_from_parser", field);
        let deparser = |field: &str| self.meta("egress_intrinsic_metadata_for_deparser", field);
        Ok(EgressMetadata {
            header: self.header_of("egress_intrinsic_metadata.egress_port")?,
            egress_port: own("egress_port")?,
            enq_qdepth: own("enq_qdepth")?,
            enq_tstamp: own("enq_tstamp")?,
            deq_qdepth: own("deq_qdepth")?,
            deq_timedelta: own("deq_timedelta")?,
            egress_rid: own("egress_rid")?,
            egress_qid: own("egress_qid")?,
            pkt_length: own("pkt_length")?,
            global_tstamp: parser("global_tstamp")?,
            parser_err: parser("parser_err")?,
            drop_ctl: deparser("drop_ctl")?,
            mirror_type: deparser("mirror_type")?,
        })
    }

    /// Returns the header that contains the field with an alias; `None` if the program does not define the alias.
    fn header_of(&self, alias: &str) -> Result<Option<u16>, LoadError> {
        let Some(field) = self.aliases.get(alias) else {
            return Ok(None);
        };
        let header = self.header(&field.header, &format!("alias of {alias}"))?;
        Ok(Some(header))
    }

    /// Creates the plan for each header that a mirror or resubmission adds in front of a packet, by the number of its
    /// field list.
    fn fronts(&self) -> Result<FxHashMap<u32, Front>, LoadError> {
        let mut fronts = FxHashMap::default();
        for list in &self.json.field_lists {
            let front = self.front(list)?;
            super::objects::insert_list(&mut fronts, list, front)?;
        }
        Ok(fronts)
    }

    fn front(&self, list: &FieldList) -> Result<Front, LoadError> {
        let at = format!("field list {}", list.name);
        let mut fields = Vec::new();
        for element in &list.elements {
            let Expr::Field(field) = element.unwrapped() else {
                return Err(LoadError::invalid(
                    at,
                    format!("{element:?} is not a field"),
                ));
            };
            let (_, field) = self.field(field, &at)?;
            fields.push((field.slot, field.bits));
        }
        let bits: u32 = fields.iter().map(|(_, bits)| bits).sum();
        if bits % 8 != 0 {
            let why = format!("{bits} bits do not fill whole bytes");
            return Err(LoadError::invalid(at, why));
        }
        Ok(Front {
            bytes: bits as usize / 8,
            join: Join::new(fields.into_iter().filter(|(_, bits)| *bits > 0)),
        })
    }

    /// Resolves the metadata that code shared with simple_switch uses: the number of a packet's copy, for traces, and
    /// the ingress port.
    pub(super) fn tofino_intrinsic(&self) -> Result<Intrinsic, LoadError> {
        let egress_rid: Option<Meta> = self.meta("egress_intrinsic_metadata", "egress_rid")?;
        let ingress_port = self.meta("ingress_intrinsic_metadata", "ingress_port")?;
        Ok(Intrinsic {
            egress_rid,
            ingress_port,
            ..Intrinsic::default()
        })
    }
}
