"""SASL exchanges between our own client and our own servers."""


def talk(client, server):
    """Run a SASL exchange until the client is satisfied, and return the name that the server authenticated."""
    conversation = client.converse()
    token = next(conversation)
    while True:
        answer = server.receive(token)
        try:
            token = conversation.send(answer)
        except StopIteration:
            return server.name
