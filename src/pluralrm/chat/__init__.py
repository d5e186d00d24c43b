"""Chat completions: requests in, replies out, in order. `ServedChat` asks a server, `ScriptedChat` a script.

>>> chat = ScriptedChat(lambda request: f"You said: {request.messages[-1][1]}")
>>> [reply.text for reply in chat.complete([ChatRequest((("user", "Which flour?"),))])]
['You said: Which flour?']
"""

from pluralrm.chat.completions import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Sampling,
    ScriptedChat,
    ServedChat,
    TokenLogprob,
)

__all__ = ["ChatModel", "ChatReply", "ChatRequest", "Sampling", "ScriptedChat", "ServedChat", "TokenLogprob"]
