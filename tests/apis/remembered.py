"""The number of forms of produce requests that a broker remembers."""

from pipeline_broker.apis.produce_template import ProduceTemplates


def remembered(desk):
    """Of all connections together, as the budget of the edges counts them."""
    holders = desk.broker.edges._holders.items()
    return sum(len(holder.kept) for templates, holder in holders if isinstance(templates, ProduceTemplates))
