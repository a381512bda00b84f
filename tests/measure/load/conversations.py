"""Conversations of SASL between our own client and our own servers."""


def talk(client, server):
    """The conversation of a client and a server until the client is content; the server's name for it."""
    conversation = client.converse()
    token = next(conversation)
    while True:
        answer = server.receive(token)
        try:
            token = conversation.send(answer)
        except StopIteration:
            return server.name
