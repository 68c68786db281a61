-- Dissector of Alfirk's packets for Wireshark and tshark; tested with version 4.0.
--
--   UDP port 4791   packets of groups: Wireshark's dissector of RoCEv2, then McstID, kind and PSNs
--   UDP port 4790   registration packets (MRP); packets of VXLAN-GPE, which has the same port, stay with its dissector
--   P4Runtime       the payload of PacketIn and PacketOut: register control, feedback and frames
--   alfirk.packet_in, alfirk.packet_out
--                   the same frames with their headers, as on a CPU port: dissectors that the user chooses for captures
--                   with link types USER 0 to USER 15
--
-- Numbers and positions of fields are in alfirk_contract.lua and alfirk_mrp.lua, which `make contract` generates.

-- The file may be in the system's folder and in the user's.
if package.loaded.alfirk_dissector then
  return
end
package.loaded.alfirk_dissector = true

local contract = require "alfirk_contract"
local mrp_format = require "alfirk_mrp"

local alfirk = Proto("alfirk", "Alfirk group packet")
local mrp = Proto("alfirk.mrp", "Alfirk registration (MRP)")
local packet_in = Proto("alfirk.packet_in", "Alfirk PacketIn")
local packet_out = Proto("alfirk.packet_out", "Alfirk PacketOut")
local packet_io = Proto("alfirk.packet_io", "Alfirk packet I/O")
local packet_in_payload = Proto("alfirk.packet_in_payload", "Alfirk PacketIn payload")
local packet_out_payload = Proto("alfirk.packet_out_payload", "Alfirk PacketOut payload")

alfirk.prefs.groups = Pref.string(
  "McstIDs",
  "10.255.0.0/16",
  "Networks of the groups' addresses, with spaces between them. Groups outside are found by their registration"
    .. " packets, and by packets between switches."
)

---------------------------------------------------------------------------------------------------- fields

-- Names of numbers, by number: the reverse of an enum of the contract.
local function names_of(enum)
  local names = {}
  for name, number in pairs(enum) do
    names[number] = name
  end
  return names
end

local ACRONYMS = {
  ip = "IPv4 address",
  msn = "MSN",
  psn = "PSN",
  qpn = "QPN",
  rkey = "R_Key",
  va = "virtual address",
  xor = "XOR",
}

-- The name of a field for the reader: "agg PSN" for agg_psn.
local function title(name)
  local words = {}
  for word in name:gmatch("[^_]+") do
    words[#words + 1] = ACRONYMS[word] or word
  end
  return table.concat(words, " ")
end

local CONSTRUCTORS = {
  ProtoField.uint8,
  ProtoField.uint16,
  ProtoField.uint24,
  ProtoField.uint32,
  [8] = ProtoField.uint64,
}

-- Registers the fields of a header. `layout`: list of fields with name, offset and bits; `names`: by name of a field the
-- names of its values. Each entry of the result has the field of Wireshark, and its first byte and number of bytes.
local function fields_of(proto, prefix, layout, names)
  local fields = {}
  for _, entry in ipairs(layout) do
    local first = math.floor(entry.offset / 8)
    local bytes = math.ceil((entry.offset + entry.bits) / 8) - first
    local mask
    if entry.bits < 8 * bytes then
      mask = (2 ^ entry.bits - 1) * 2 ^ (8 * (first + bytes) - entry.offset - entry.bits)
      mask = math.floor(mask)
    end
    local abbreviation = prefix .. "." .. entry.name
    local values = entry.names or (names and names[entry.name])
    local field
    if entry.form == "ipv4" then
      field = ProtoField.ipv4(abbreviation, title(entry.name), entry.description)
    else
      local form = (entry.form == "hex" or entry.bits > 32) and base.HEX or base.DEC
      field = CONSTRUCTORS[bytes](abbreviation, title(entry.name), form, values, mask, entry.description)
    end
    proto.fields[abbreviation] = field
    fields[#fields + 1] = { name = entry.name, field = field, first = first, bytes = bytes }
  end
  return fields
end

-- Adds the fields of a header to `tree`; those beyond the end of `range` are left out.
local function add_fields(tree, fields, range)
  for _, entry in ipairs(fields) do
    if entry.first + entry.bytes <= range:len() then
      tree:add(entry.field, range(entry.first, entry.bytes))
    end
  end
end

-- Registers a field that is not a field of a header.
local function own_field(proto, field, abbreviation, ...)
  local made = field(abbreviation, ...)
  proto.fields[abbreviation] = made
  return made
end

local HOPS = { [1] = "from a host", [2] = "between switches", [3] = "to a host" }
local FROM_HOST, BETWEEN_SWITCHES, TO_HOST = 1, 2, 3

local KIND = contract.Kind
local KINDS = names_of(KIND)

local mcst_id = own_field(alfirk, ProtoField.ipv4, "alfirk.mcst_id", "McstID", "Address of the group")
local member = own_field(alfirk, ProtoField.ipv4, "alfirk.member", "Member", "Host that sent or gets the packet")
local hop = own_field(alfirk, ProtoField.uint8, "alfirk.hop", "Hop", base.DEC, HOPS, nil, "Place of the capture")
local kind = own_field(
  alfirk, ProtoField.uint8, "alfirk.kind", "Kind", base.DEC, KINDS, nil, "Kind of the packet (p4src/shared/kinds.p4)"
)
local psn = own_field(alfirk, ProtoField.uint24, "alfirk.psn", "PSN", base.DEC, nil, nil, "PSN of data")
local acked_psn = own_field(
  alfirk, ProtoField.uint24, "alfirk.acked_psn", "AckPSN", base.DEC, nil, nil,
  "Newest PSN that an ACK or NAK acknowledges, with all before it"
)
local expected_psn = own_field(
  alfirk, ProtoField.uint24, "alfirk.expected_psn", "Expected PSN", base.DEC, nil, nil, "PSN that a NAK requests"
)
local lost_psn = own_field(
  alfirk, ProtoField.uint24, "alfirk.lost_psn", "Lost PSN", base.DEC, nil, nil, "PSN that a selective NAK reports"
)
local reports = own_field(
  alfirk, ProtoField.uint24, "alfirk.reports", "Reports", base.DEC, nil, nil, "Number of reports of a lost PSN so far"
)
local msn = own_field(alfirk, ProtoField.uint24, "alfirk.msn", "MSN", base.DEC, nil, nil, "Message sequence number")
local receiver = own_field(
  alfirk, ProtoField.ipv4, "alfirk.mr_info.receiver", "Receiver", "Host whose memory region is announced"
)
local mr_info = fields_of(alfirk, "alfirk.mr_info", contract.mr_info_t)

local mrp_metadata = fields_of(mrp, "alfirk.mrp", mrp_format.metadata)
local mrp_node = fields_of(mrp, "alfirk.mrp.node", mrp_format.node)
local retry_count = own_field(
  mrp, ProtoField.uint8, "alfirk.mrp.retry_count", "Retry count", base.DEC, nil, mrp_format.RETRY_COUNT_MASK
)
local ack_timeout = own_field(
  mrp, ProtoField.uint8, "alfirk.mrp.ack_timeout", "ACK timeout exponent", base.DEC, nil, mrp_format.ACK_TIMEOUT_MASK,
  "The local ACK timeout is 4.096 us times 2 to the power of this; 0: none or unknown"
)
local refusal = own_field(
  mrp, ProtoField.uint8, "alfirk.mrp.refusal", "Refusal", base.DEC, mrp_format.refusals, nil,
  "Reason why the group is not registered"
)
local node_flags = {}
for _, name in ipairs({ "IS_GROUP", "HAS_REGION", "ONLY_RECEIVES", "IS_LEADER" }) do
  local lower = name:lower()
  node_flags[#node_flags + 1] = own_field(
    mrp, ProtoField.bool, "alfirk.mrp.node.flags." .. lower, title(lower), 8, nil, mrp_format.node_flags[name]
  )
end

local PACKET_IN = names_of(contract.PacketInReason)
local PACKET_OUT = names_of(contract.PacketOutKind)
local REGISTERS = names_of(contract.RegisterName)
local OPERATIONS = names_of(contract.RegisterOp)
local packet_in_header = fields_of(packet_in, "alfirk.packet_in", contract.packet_in_t, { reason = PACKET_IN })
local packet_out_header = fields_of(packet_out, "alfirk.packet_out", contract.packet_out_t, { kind = PACKET_OUT })
local register_control = fields_of(packet_io, "alfirk.register_control", contract.register_control_t, {
  op = OPERATIONS,
  status = names_of(contract.RegisterStatus),
  reg = REGISTERS,
})
local feedback = fields_of(packet_io, "alfirk.feedback", contract.feedback_t)

-- Parts of register_control.value, as the comments of RegisterName and RegisterOp describe them: first byte, number of
-- bytes and bits of the mask.
local function value_part(name, text, field, form)
  return own_field(packet_io, field, "alfirk.register_control.value." .. name, text, form or base.DEC)
end
local value_psn = value_part("psn", "PSN", ProtoField.uint24)
local value_msn = value_part("msn", "MSN", ProtoField.uint24)
local value_low_msn = value_part("low_msn", "Lower 16 bits of the MSN", ProtoField.uint16)
local value_syndrome = value_part("syndrome", "AETH syndrome", ProtoField.uint8, base.HEX)
local value_port = value_part("port", "Port", ProtoField.uint16)
local value_path = value_part("path", "Path", ProtoField.uint8)
local value_absent = value_part("absent", "Absent tree nodes", ProtoField.uint16, base.HEX)
local value_rkey = value_part("rkey_xor", "R_Key XOR", ProtoField.uint32, base.HEX)
local value_id = value_part("id_xor", "IPv4 identification XOR", ProtoField.uint16, base.HEX)
local value_sport = value_part("sport_xor", "UDP source port XOR", ProtoField.uint16, base.HEX)
local value_sent = own_field(
  packet_io, ProtoField.bool, "alfirk.register_control.value.is_sent", "NAK was sent to the source", 8, nil, 0x80
)

local ONLY_PSN = { { value_psn, 5, 3 } }
local VALUES = {
  AGG = { { value_psn, 2, 3 }, { value_msn, 5, 3 } },
  NAK = { { value_sent, 4, 1 }, { value_syndrome, 4, 1 }, { value_psn, 5, 3 } },
  SRC_PORT = { { value_port, 6, 2 } },
  ACK = { { value_absent, 2, 2 }, { value_psn, 4, 3 }, { value_path, 7, 1 } },
  MSN = { { value_low_msn, 6, 2 } },
  FILTER = ONLY_PSN,
  REGION_KEYS = { { value_rkey, 0, 4 }, { value_id, 4, 2 }, { value_sport, 6, 2 } },
  REGION_ANNOUNCED_AT = ONLY_PSN,
  SENT = ONLY_PSN,
  CLAIMED = ONLY_PSN,
}
local INITIAL_VALUES = {
  INIT_GROUP = { { value_msn, 2, 3 }, { value_psn, 5, 3 } },
  INIT_REGIONS = ONLY_PSN,
}

local truncated = ProtoExpert.new("alfirk.truncated", "The frame ends within a header", expert.group.MALFORMED, expert.severity.ERROR)
local invalid = ProtoExpert.new("alfirk.invalid", "Invalid field", expert.group.MALFORMED, expert.severity.ERROR)
alfirk.experts = { truncated, invalid }

---------------------------------------------------------------------------------------------------- groups

-- Networks of McstIDs: lists of first and last address, as numbers.
local networks = {}
-- McstIDs that registration packets, or packets between switches, have shown: addresses as numbers.
local known = {}

local function number_of(address)
  local a, b, c, d = tostring(address):match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
  if not a then
    return nil
  end
  return ((a * 256 + b) * 256 + c) * 256 + d
end

local function read_networks()
  networks = {}
  for text in alfirk.prefs.groups:gmatch("[^%s,]+") do
    local address, length = text:match("^([%d.]+)/(%d+)$")
    local first = number_of(address or text)
    local size = 2 ^ (32 - (tonumber(length) or 32))
    if first and size >= 1 then
      first = first - first % size
      networks[#networks + 1] = { first, first + size - 1 }
    end
  end
end

read_networks()
alfirk.prefs_changed = read_networks

function alfirk.init()
  known = {}
end

local function is_group(number)
  if known[number] then
    return true
  end
  for _, network in ipairs(networks) do
    if network[1] <= number and number <= network[2] then
      return true
    end
  end
  return false
end

local ip_src = Field.new("ip.src")
local ip_dst = Field.new("ip.dst")

-- An address of the innermost IPv4 header: as a number, and its bytes or its value for the tree. nil without IPv4.
local function ipv4(extractor, address)
  local all = { extractor() }
  local last = all[#all]
  if last then
    return last.range:uint(), last.range
  end
  -- Without a tree there are no fields.
  return number_of(address), address
end

---------------------------------------------------------------------------------------------------- packets of groups

local udp_ports = DissectorTable.get("udp.port")
local roce = udp_ports:get_dissector(contract.UDP_PORT_ROCEV2)
local vxlan_gpe = udp_ports:get_dissector(contract.UDP_PORT_MRP)

-- Calls another dissector; its errors are its own, and it has shown them.
local function call(dissector, tvb, pinfo, tree)
  if dissector then
    pcall(dissector.call, dissector, tvb, pinfo, tree)
  end
end

local BTH_BYTES = contract.bth_t.bytes
local AETH_END = BTH_BYTES + contract.aeth_t.bytes
local RETH_END = BTH_BYTES + contract.reth_t.bytes

-- Position of a field in a header of the contract, in bytes, after `start`.
local function place(header, name, start)
  for _, entry in ipairs(header) do
    if entry.name == name then
      return start + math.floor(entry.offset / 8), math.ceil(entry.bits / 8)
    end
  end
  error("no field " .. name)
end

local OPCODE = place(contract.bth_t, "opcode", 0)
local PSN, PSN_BYTES = place(contract.bth_t, "psn", 0)
local SYNDROME = place(contract.aeth_t, "kind", BTH_BYTES)
local MSN, MSN_BYTES = place(contract.aeth_t, "msn", BTH_BYTES)
local RKEY, RKEY_BYTES = place(contract.reth_t, "r_key", BTH_BYTES)
-- The low 32 bits of the virtual address.
local RECEIVER = place(contract.reth_t, "va", BTH_BYTES) + 4
-- Bits of `value` below `kind` in a syndrome.
local SYNDROME_KIND = 2 ^ 5

local REFUSED = {}
for _, name in ipairs({
  "READ_REQUEST", "COMPARE_SWAP", "FETCH_ADD", "SEND_LAST_INV", "SEND_ONLY_INV", "FLUSH", "ATOMIC_WRITE",
}) do
  REFUSED[contract["OPCODE_RC_" .. name]] = true
end

-- Kind of a packet, as p4src/v1model/classify.p4 determines it, for a group with selective repeat. `syndrome`: nil without
-- an AETH.
local function kind_of(opcode, syndrome)
  if opcode <= contract.OPCODE_RC_WRITE_ONLY_IMM then
    return KIND.DATA
  elseif opcode == contract.OPCODE_CNP then
    return KIND.CNP
  elseif REFUSED[opcode] then
    return KIND.READ
  elseif opcode ~= contract.OPCODE_RC_ACKNOWLEDGE or not syndrome then
    return KIND.NONE
  end
  local value = syndrome % SYNDROME_KIND
  local aeth = (syndrome - value) / SYNDROME_KIND
  if aeth == contract.AETH_ACK then
    return KIND.ACK
  elseif aeth == contract.AETH_RNR_NAK then
    return KIND.NAK
  elseif aeth ~= contract.AETH_NAK then
    return KIND.NONE
  elseif value == contract.NAK_PSN_SEQUENCE_ERROR then
    return KIND.NAK
  elseif value <= contract.NAK_REMOTE_OPERATIONAL then
    return KIND.FATAL_NAK
  elseif value == contract.NAK_SELECTIVE then
    return KIND.SELECTIVE_NAK
  end
  return KIND.NONE
end

-- The PSN before another one.
local function before(number)
  return (number + 2 ^ 24 - 1) % 2 ^ 24
end

-- Adds the PSNs of an acknowledge packet, and returns the number that the summary shows.
local function add_feedback(tree, tvb, is, where)
  local number, message = tvb(PSN, PSN_BYTES), tvb(MSN, MSN_BYTES)
  if is == KIND.ACK then
    tree:add(acked_psn, number)
    tree:add(msn, message)
    return number:uint()
  elseif is == KIND.SELECTIVE_NAK and where == TO_HOST then
    -- The source gets the lost PSN in place of the MSN.
    tree:add(acked_psn, number, before(number:uint())):set_generated()
    tree:add(lost_psn, message)
    return message:uint()
  elseif is == KIND.SELECTIVE_NAK then
    tree:add(lost_psn, number)
    tree:add(reports, message)
    return number:uint()
  end
  if is == KIND.NAK then
    tree:add(acked_psn, number, before(number:uint())):set_generated()
  end
  tree:add(expected_psn, number)
  tree:add(msn, message)
  return number:uint()
end

-- Adds the announcement of a memory region, if a WRITE Only is one.
local function add_region(tree, tvb, opcode)
  local length = contract.MR_INFO_UDP_BYTES - contract.udp_t.bytes
  local is_announcement = opcode == contract.OPCODE_RC_WRITE_ONLY
    and tvb:len() == length
    and tvb(RKEY, RKEY_BYTES):uint() == contract.MR_INFO_RKEY
  if is_announcement then
    local range = tvb(RETH_END, contract.mr_info_t.bytes)
    local subtree = tree:add(range, "Announcement of a memory region")
    subtree:add(receiver, tvb(RECEIVER, 4))
    add_fields(subtree, mr_info, range)
  end
  return is_announcement
end

function alfirk.dissector(tvb, pinfo, tree)
  call(roce, tvb, pinfo, tree)
  local from, src = ipv4(ip_src, pinfo.net_src)
  local to, dst = ipv4(ip_dst, pinfo.net_dst)
  if not from or not to or tvb:len() < BTH_BYTES then
    return tvb:len()
  end
  local where, group, host
  if from == to then
    where, group = BETWEEN_SWITCHES, dst
    known[to] = true
  elseif is_group(to) then
    where, group, host = FROM_HOST, dst, src
  elseif is_group(from) then
    where, group, host = TO_HOST, src, dst
  else
    return tvb:len()
  end

  local opcode = tvb(OPCODE, 1):uint()
  local syndrome = tvb:len() >= AETH_END and tvb(SYNDROME, 1):uint() or nil
  local is = kind_of(opcode, syndrome)
  local subtree = tree:add(alfirk, tvb())
  subtree:add(mcst_id, group)
  subtree:add(hop, where):set_generated()
  if host then
    subtree:add(member, host)
  end
  subtree:add(kind, is):set_generated()
  local shown
  local note = ""
  if is == KIND.DATA or is == KIND.READ then
    subtree:add(psn, tvb(PSN, PSN_BYTES))
    shown = tvb(PSN, PSN_BYTES):uint()
    if add_region(subtree, tvb, opcode) then
      note = ", memory region"
    end
  elseif is ~= KIND.CNP and is ~= KIND.NONE then
    shown = add_feedback(subtree, tvb, is, where)
  end
  local text = KINDS[is] .. (shown and " " .. shown or "") .. note
  subtree:append_text(": " .. text)
  pinfo.cols.info:append(" [" .. text .. "]")
  return tvb:len()
end

---------------------------------------------------------------------------------------------------- registration

local MRP_BYTES, NODE_BYTES = mrp_format.METADATA_BYTES, mrp_format.NODE_BYTES

-- Values of the fields of a header, by name, for headers of less than 32 bits a field.
local function read(layout, range)
  local values = {}
  for _, entry in ipairs(layout) do
    if entry.bits <= 32 and entry.offset + entry.bits <= 8 * range:len() then
      values[entry.name] = range:bitfield(entry.offset, entry.bits)
    end
  end
  return values
end

local function has_flag(flags, name)
  local bit = mrp_format.node_flags[name]
  return math.floor(flags / bit) % 2 == 1
end

-- Length of a node's region records: those behind the record of the node.
local REGION_BYTES = 2 * NODE_BYTES

-- Adds the node at the start of `rest`, and returns its length, address and flags. nil if `rest` ends before the node.
local function add_node(tree, index, rest)
  local flags = read(mrp_format.node, rest(0, NODE_BYTES)).flags
  local bytes = NODE_BYTES + (has_flag(flags, "HAS_REGION") and REGION_BYTES or 0)
  local is_complete = bytes <= rest:len()
  local range = rest(0, math.min(bytes, rest:len()))
  local values = read(mrp_format.node, range)
  local address = tostring(range(0, 4):ipv4())
  local subtree = tree:add(range, string.format("Node %d: %s, QPN 0x%06x", index, address, values.qpn))
  for _, entry in ipairs(mrp_node) do
    if entry.first + entry.bytes <= range:len() then
      local item = subtree:add(entry.field, range(entry.first, entry.bytes))
      if entry.name == "flags" then
        for _, flag in ipairs(node_flags) do
          item:add(flag, range(entry.first, 1))
        end
      end
    end
  end
  if not is_complete then
    subtree:add_proto_expert_info(truncated)
    return nil
  end
  if values.log2_len and values.log2_len > mrp_format.MAX_LOG2_LEN then
    subtree:add_proto_expert_info(invalid, "The region is longer than half of the address space")
  end
  if values.zero and values.zero ~= 0 then
    subtree:add_proto_expert_info(invalid, "Reserved bytes of the region are not zero")
  end
  if has_flag(flags, "IS_GROUP") and has_flag(flags, "HAS_REGION") then
    subtree:add_proto_expert_info(invalid, "A group has no memory region")
  end
  return bytes, range(0, 4), flags
end

-- Names of the types, from the field of the metadata.
local MRP_TYPES = {}
for _, entry in ipairs(mrp_format.metadata) do
  if entry.name == "type" then
    MRP_TYPES = entry.names
  end
end

function mrp.dissector(tvb, pinfo, tree)
  local values = read(mrp_format.metadata, tvb(0, math.min(tvb:len(), MRP_BYTES)))
  if values.version ~= mrp_format.VERSION then
    call(vxlan_gpe, tvb, pinfo, tree)
    return tvb:len()
  end
  local name = MRP_TYPES[values.type] or tostring(values.type)
  pinfo.cols.protocol = "MRP"
  pinfo.cols.info = name
  local subtree = tree:add(mrp, tvb())
  subtree:append_text(": " .. name)
  for _, entry in ipairs(mrp_metadata) do
    if entry.first + entry.bytes <= tvb:len() then
      local range = tvb(entry.first, entry.bytes)
      local item = subtree:add(entry.field, range)
      if entry.name == "flags" and name == "REGISTER" then
        item:add(retry_count, range)
        item:add(ack_timeout, range)
      elseif entry.name == "flags" and name == "REFUSE" then
        item:add(refusal, range)
      end
    end
  end
  if tvb:len() < MRP_BYTES then
    subtree:add_proto_expert_info(truncated)
    return tvb:len()
  end
  if not MRP_TYPES[values.type] then
    subtree:add_proto_expert_info(invalid, "Unknown type")
  end
  if values.seq >= values.total then
    subtree:add_proto_expert_info(invalid, "The number of the packet is not below the number of packets")
  end
  if values.count > mrp_format.MAX_NODES then
    subtree:add_proto_expert_info(invalid, "More nodes than a packet can have")
  end

  local stop = MRP_BYTES + values.count * NODE_BYTES
  if stop > tvb:len() then
    subtree:add_proto_expert_info(truncated)
    stop = tvb:len()
  end
  local at, index, group = MRP_BYTES, 0, nil
  while at + NODE_BYTES <= stop do
    local bytes, address, flags = add_node(subtree, index, tvb(at, stop - at))
    if not bytes then
      break
    end
    if not group and has_flag(flags, "IS_GROUP") then
      group = address
      known[address:uint()] = true
    end
    at = at + bytes
    index = index + 1
  end
  -- A packet that names no group is addressed to it.
  local to, dst = ipv4(ip_dst, pinfo.net_dst)
  if group or to then
    subtree:add(mcst_id, group or dst)
  end
  pinfo.cols.info:append(string.format(", %d nodes, initial PSN %d", index, values.psn))
  return tvb:len()
end

---------------------------------------------------------------------------------------------------- packet I/O

local ethernet = Dissector.get("eth_withoutfcs")

-- Adds a register access: the whole of `tvb`, less what follows it. `is_request`: it goes to the switch.
local function add_registers(tvb, pinfo, tree, is_request)
  local subtree = tree:add(packet_io, tvb(), "Register control")
  add_fields(subtree, register_control, tvb())
  if tvb:len() < contract.register_control_t.bytes then
    subtree:add_proto_expert_info(truncated)
    return
  end
  local values = read(contract.register_control_t, tvb())
  local operation = OPERATIONS[values.op]
  local register = REGISTERS[values.reg]
  local parts = INITIAL_VALUES[operation]
  if operation == "WRITE" or (operation == "READ" and not is_request) then
    parts = VALUES[register]
  end
  local start = place(contract.register_control_t, "value", 0)
  for _, part in ipairs(parts or {}) do
    subtree:add(part[1], tvb(start + part[2], part[3]))
  end
  local text = operation or tostring(values.op)
  if operation == "READ" or operation == "WRITE" then
    text = text .. " " .. (register or tostring(values.reg))
  end
  text = string.format("%s, group %d, index %d", text, values.group, values.index)
  subtree:append_text(": " .. text)
  pinfo.cols.protocol = "Alfirk"
  pinfo.cols.info = (is_request and "register request: " or "register reply: ") .. text
end

-- Adds the header before an ACK or NAK, and dissects the frame behind it.
local function add_feedback_frame(tvb, pinfo, tree)
  local bytes = contract.feedback_t.bytes
  local subtree = tree:add(packet_io, tvb(0, math.min(bytes, tvb:len())), "Feedback")
  add_fields(subtree, feedback, tvb())
  if tvb:len() <= bytes then
    subtree:add_proto_expert_info(truncated)
    return
  end
  call(ethernet, tvb(bytes):tvb(), pinfo, tree)
end

-- Dissects what follows the header of a PacketIn or PacketOut. `form`: "registers", "feedback" or "frame".
local function add_payload(form, tvb, pinfo, tree, is_request)
  if form == "registers" then
    add_registers(tvb, pinfo, tree, is_request)
  elseif form == "feedback" then
    add_feedback_frame(tvb, pinfo, tree)
  else
    call(ethernet, tvb, pinfo, tree)
  end
end

-- A dissector of frames between switch and controller: a header whose first field determines the form of the rest.
local function packet_io_dissector(proto, header, layout, forms, is_request)
  return function(tvb, pinfo, tree)
    pinfo.cols.protocol = "Alfirk"
    local subtree = tree:add(proto, tvb(0, math.min(layout.bytes, tvb:len())))
    add_fields(subtree, header, tvb())
    if tvb:len() <= layout.bytes then
      subtree:add_proto_expert_info(truncated)
      return tvb:len()
    end
    add_payload(forms[tvb(0, 1):uint()], tvb(layout.bytes):tvb(), pinfo, tree, is_request)
    return tvb:len()
  end
end

local REASON, OUT = contract.PacketInReason, contract.PacketOutKind
packet_in.dissector = packet_io_dissector(packet_in, packet_in_header, contract.packet_in_t, {
  [REASON.REGISTERS] = "registers",
  [REASON.FEEDBACK] = "feedback",
  [REASON.PROBE] = "feedback",
}, false)
packet_out.dissector = packet_io_dissector(packet_out, packet_out_header, contract.packet_out_t, {
  [OUT.REGISTERS] = "registers",
  [OUT.FEEDBACK] = "feedback",
}, true)

-- P4Runtime sends the header as metadata behind the payload, so the form of the payload follows from its bytes.
local ETHER_TYPES = {
  [contract.ETHERTYPE_IPV4] = true,
  [contract.ETHERTYPE_ARP] = true,
  [contract.ETHERTYPE_C_TAG] = true,
  [contract.ETHERTYPE_S_TAG] = true,
}

-- Whether a frame of a known EtherType begins at byte `at`.
local function is_frame(tvb, at)
  local ether_type, bytes = place(contract.ethernet_t, "ether_type", at)
  return tvb:len() >= ether_type + bytes and ETHER_TYPES[tvb(ether_type, bytes):uint()]
end

local function payload_dissector(is_request)
  return function(tvb, pinfo, tree)
    local form = "frame"
    if tvb:len() == contract.register_control_t.bytes then
      form = "registers"
    elseif not is_frame(tvb, 0) and is_frame(tvb, contract.feedback_t.bytes) then
      form = "feedback"
    end
    add_payload(form, tvb, pinfo, tree, is_request)
    return tvb:len()
  end
end

packet_in_payload.dissector = payload_dissector(false)
packet_out_payload.dissector = payload_dissector(true)
local protobuf_fields = DissectorTable.get("protobuf_field")
protobuf_fields:add("p4.v1.PacketIn.payload", packet_in_payload)
protobuf_fields:add("p4.v1.PacketOut.payload", packet_out_payload)

udp_ports:add(contract.UDP_PORT_ROCEV2, alfirk)
udp_ports:add(contract.UDP_PORT_MRP, mrp)
