// Forms that add packets and table entries to the test.

import { element } from "./trace.js";

const at = (id) => document.getElementById(id);

/** A label with a text field. */
function field(name, hint, changed, value = "") {
  const input = element("input");
  input.placeholder = hint;
  input.value = value;
  input.spellcheck = false;
  input.autocomplete = "off";
  input.addEventListener("input", changed);
  return { input, label: element("label", "", element("span", "", name), input) };
}

/** A value as an expression has it: numbers as they are, other text in quotation marks. */
function literal(text) {
  return /^(0[xX][\da-fA-F]+|\d+)$/.test(text) ? text : JSON.stringify(text);
}

/** The form for packets. `context`: `document()`, `execute(request)`, `interface()`, `append(line)`, `openCapture()`. */
export function createPacketForm(context) {
  let forms = [];
  let chosen = [];
  let latest = 0;

  const show = (result) => {
    at("packet-hex").value = result.frame.data.replace(/(..)/g, "$1 ").trim();
    const layers = result.frame.layers.map((layer) => `${layer.name} (${layer.length})`).join(" / ");
    at("packet-note").textContent = `${result.frame.data.length / 2} bytes: ${layers}`;
    at("packet-note").classList.remove("bad");
    at("packet-add").disabled = false;
  };
  const ask = async (request) => {
    latest += 1;
    const number = latest;
    at("packet-add").disabled = true;
    try {
      const result = await context.execute({ ...request, document: context.document() });
      if (number === latest) show(result);
    } catch (error) {
      if (number !== latest) return;
      at("packet-note").textContent = error.message;
      at("packet-note").classList.add("bad");
    }
  };
  const build = () => {
    const expression = at("expression").value.trim();
    if (expression) ask({ do: "build", expression });
  };
  const compose = () => {
    const layers = chosen.map(({ name, inputs }) => {
      const values = inputs.filter(([, input]) => input.value.trim() !== "");
      return `${name}(${values.map(([field, input]) => `${field}=${literal(input.value.trim())}`).join(", ")})`;
    });
    at("expression").value = layers.join("/");
    build();
  };
  const draw = () => {
    at("layers").replaceChildren();
    for (const layer of chosen) {
      const fields = layer.inputs.map(([, , label]) => label);
      const remove = element("button", "small", "Remove");
      remove.type = "button";
      remove.addEventListener("click", () => {
        chosen = chosen.filter((other) => other !== layer);
        draw();
        compose();
      });
      at("layers").append(element("fieldset", "", element("legend", "", layer.name, " ", remove), element("div", "grid", ...fields)));
    }
  };
  const add = (name) => {
    const form = forms.find((candidate) => candidate.name === name);
    if (!form) return;
    const inputs = form.fields.map(([own, value, isComputed]) => {
      const { input, label } = field(own, isComputed ? "computed" : value, compose);
      return [own, input, label];
    });
    chosen.push({ name, inputs });
  };
  at("add-layer").addEventListener("click", () => {
    add(at("layer").value);
    draw();
    compose();
  });
  at("expression").addEventListener("input", () => {
    chosen = [];
    draw();
    build();
  });
  at("packet-hex").addEventListener("input", () => ask({ do: "dissect", data: at("packet-hex").value }));
  at("packet-capture").addEventListener("click", () => {
    at("packet-dialog").close();
    context.openCapture(Number(at("packet-port").value) || 0);
  });
  at("packet-dialog").addEventListener("close", () => {
    if (at("packet-dialog").returnValue !== "add") return;
    context.append(`packet ${Number(at("packet-port").value) || 0} ${at("packet-hex").value.replace(/\s+/g, "")}`);
  });
  return async () => {
    at("packet-dialog").returnValue = "";
    const known = await context.interface();
    forms = known.layers;
    const groups = [["Protocols", false], ["Headers of the program", true]].map(([title, own]) => {
      const group = element("optgroup");
      group.label = title;
      for (const form of forms.filter((candidate) => candidate.is_of_program === own)) group.append(new Option(form.name, form.name));
      return group;
    });
    at("layer").replaceChildren(...groups);
    if (!chosen.length && !at("expression").value) {
      ["Ether", "IP", "UDP"].forEach(add);
      draw();
    }
    if (chosen.length) compose();
    else build();
    at("packet-dialog").showModal();
  };
}

/**
 * The form for runs of fabrics, and the list of their switches. `context`: `run(request)` executes and shows a request, and returns its reply.
 * Returns a function that offers topologies, by their paths.
 */
export function createFabricForm(context) {
  const show = async (spec, index) => {
    const reply = await context.run({ do: "fabric", spec, switch: index });
    if (!reply) return;
    const tabs = reply.switches.map(({ name, packets }, number) => {
      const tab = element("button", "", `${name} `, element("span", "count", String(packets)));
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", String(number === index));
      tab.title = `${packets} packets`;
      tab.addEventListener("click", () => show(spec, number));
      return tab;
    });
    at("switches").replaceChildren(...tabs);
    at("switches").hidden = false;
  };
  at("fabric").addEventListener("click", () => {
    at("fabric-dialog").returnValue = "";
    at("fabric-dialog").showModal();
  });
  at("fabric-dialog").addEventListener("close", () => {
    if (at("fabric-dialog").returnValue !== "run") return;
    const number = (id) => Number(at(id).value) || 0;
    const spec = {
      topology: at("topology").value, group: number("fabric-group"), bytes: number("fabric-bytes"), loss: number("fabric-loss"),
      seed: number("fabric-seed"),
    };
    show(spec, 0);
  });
  return (paths) => {
    const nameOf = (path) => path.split("/").pop().replace(/\.yaml$/, "");
    at("topology").replaceChildren(...paths.map((path) => new Option(nameOf(path), path)));
    const first = paths.find((path) => nameOf(path) === "leaf-spine");
    if (first) at("topology").value = first;
    at("fabric").hidden = !paths.length;
  };
}

const KEY_HINTS = {
  exact: "value, such as 10.0.0.1 or 0x800",
  lpm: "value/length, such as 10.0.0.0/8",
  ternary: "value &&& mask; empty for any",
  range: "low..high; empty for any",
  optional: "value; empty for any",
};

/** The form for table entries. `context`: `interface()`, `append(line)`. */
export function createEntryForm(context) {
  let tables = [];
  let line = "";

  const table = () => tables[at("table").selectedIndex];
  const inputsOf = (id) => [...at(id).querySelectorAll("input")];
  const compose = () => {
    const { keys, has_priority: hasPriority } = table();
    const action = table().actions[at("action").selectedIndex];
    const values = inputsOf("keys").map((input) => input.value.trim());
    const priority = hasPriority ? values.pop() : "";
    const parameters = inputsOf("parameters").map((input) => input.value.trim());
    const missing = keys.find((key, index) => key.kind === "exact" && !values[index]);
    const without = action?.parameters.find((_, index) => !parameters[index]);
    const parts = keys.flatMap((key, index) => (values[index] ? [`${key.name}:${values[index]}`] : []));
    const list = (action?.parameters ?? []).map((parameter, index) => `${parameter.name}:${parameters[index]}`);
    line = ["add", table().name, ...(priority ? [priority] : []), ...parts, `${action?.name}(${list.join(", ")})`].join(" ");
    const problem = missing ? `the key ${missing.name} needs a value` : without ? `the parameter ${without.name} needs a value` : null;
    at("entry-note").textContent = problem ?? line;
    at("entry-add").disabled = problem !== null;
  };
  const drawAction = () => {
    const action = table().actions[at("action").selectedIndex];
    const fields = (action?.parameters ?? []).map((parameter) => field(`${parameter.name} (${parameter.bits} bits)`, "value", compose).label);
    at("parameters").replaceChildren(...fields);
    at("parameters").parentElement.hidden = !fields.length;
    compose();
  };
  const drawTable = () => {
    const { keys, actions, has_priority: hasPriority } = table();
    const fields = keys.map((key) => field(`${key.name} (${key.kind}, ${key.bits} bits)`, KEY_HINTS[key.kind], compose).label);
    if (hasPriority) fields.push(field("priority (the largest wins)", "1", compose, "1").label);
    at("keys").replaceChildren(...fields);
    at("action").replaceChildren(...actions.map((action) => new Option(action.name)));
    drawAction();
  };
  at("table").addEventListener("change", drawTable);
  at("action").addEventListener("change", drawAction);
  at("entry-dialog").addEventListener("close", () => {
    if (at("entry-dialog").returnValue === "add") context.append(line, true);
  });
  return async () => {
    at("entry-dialog").returnValue = "";
    tables = (await context.interface()).tables.filter((candidate) => !candidate.is_const);
    if (!tables.length) throw new Error("the program has no table to which entries can be added");
    at("table").replaceChildren(...tables.map((candidate) => new Option(candidate.name)));
    drawTable();
    at("entry-dialog").showModal();
  };
}
