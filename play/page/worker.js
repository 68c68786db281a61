// Runs the engine, a WebAssembly module, beside the page.

let exported = null;

/** Calls a function of the module with a text, and returns the text of its result. */
function call(name, text) {
  const bytes = new TextEncoder().encode(text);
  const address = exported.alfirk_allocate(bytes.length);
  new Uint8Array(exported.memory.buffer, address, bytes.length).set(bytes);
  const result = exported[name](address, bytes.length);
  return new TextDecoder().decode(new Uint8Array(exported.memory.buffer, result, exported.alfirk_result_bytes()));
}

onmessage = async ({ data: { number, name, value } }) => {
  try {
    if (name === "start") {
      const instance = await WebAssembly.instantiate(value.code, {});
      exported = instance.exports;
      postMessage({ number, result: call("alfirk_start", value.library) });
    } else {
      postMessage({ number, result: call(`alfirk_${name}`, value) });
    }
  } catch (error) {
    // The module's memory is not usable any more: allocation failed, or the stack overflowed.
    postMessage({ number, isBroken: true, text: error.message });
  }
};
