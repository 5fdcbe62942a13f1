// Sends requests to the server. On the site, another backend.js sends them to a web worker.

async function post(name, body, signal) {
  let response;
  try {
    response = await fetch(`api/${name}`, {
      method: "POST", signal, body: JSON.stringify(body),
      headers: { "Content-Type": "application/json" },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the playground has stopped; start it again and open the new link");
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Error(answer.error || `the request failed with status ${response.status}`);
  }
  return response;
}

/** Return the answer to a request. */
export async function ask(name, body, signal) {
  return (await post(name, body, signal)).json();
}

/** Call `take` with the objects of a streamed answer as they arrive. */
export async function stream(name, body, signal, take) {
  const reader = (await post(name, body, signal)).body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const row = JSON.parse(line);
        if (row.error) throw new Error(row.error);
        take(row);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
