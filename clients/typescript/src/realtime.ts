import type { Call } from "./call.js";
import type { Begin } from "./wrap.js";

/** Record each answer that comes over a connection of OpenAI's Realtime, and each text that what was said became. */
export function listen(connection: any, provider: string | undefined, begin: Begin): void {
  const calls = new Map<string, Call>();
  let session: any;
  const beginOf = (model: unknown) =>
    begin({ provider: provider ?? (String(connection.url).includes(".azure.") ? "azure" : "openai"), model: model as string });

  connection.on("event", (event: any) => {
    session = event?.session ?? session;
    const { type = "", response } = event ?? {};
    if (type === "response.created") calls.set(response?.id, beginOf(session?.model));
    else if (type === "response.done") {
      const call = calls.get(response?.id) ?? beginOf(session?.model);
      calls.delete(response?.id);
      call.see(event);
      call.end();
    } else if (type === "conversation.item.input_audio_transcription.completed") {
      const call = beginOf(session?.audio?.input?.transcription?.model); // It has a model of its own.
      call.see({ usage: event.usage });
      call.end();
    } else if (type.endsWith(".delta")) calls.get(event.response_id)?.firstToken();
  });
}
