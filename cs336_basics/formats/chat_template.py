"""The template of a conversation in the language that transformers and llama.cpp read."""

from cs336_basics._support.text import ASSISTANT, END_OF_TEXT, USER

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}"
    f"{{{{- '{USER}' + message['content'] -}}}}"
    "{%- elif message['role'] == 'assistant' -%}"
    f"{{{{- '{ASSISTANT}' + message['content'] + '{END_OF_TEXT}' -}}}}"
    "{%- else -%}"
    "{{- raise_exception('the roles of messages must be user and assistant') -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    f"{{%- if add_generation_prompt -%}}{{{{- '{ASSISTANT}' -}}}}{{%- endif -%}}"
)
"""Jinja template that gives the text of `generation.conversation.Conversation`."""
