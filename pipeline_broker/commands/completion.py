r"""`pipeline-broker completion`: shell completion of commands, options and names.

The scripts run the program itself, with click's protocol for each shell. Bash's script is click's own. Those for zsh
and fish replace click's scripts. click's fish script splits descriptions at commas and completes nothing after
`--option=`; its zsh script replaces the whole word there.

A candidate is of a kind: plain, file or dir. zsh receives three lines: kind, value and description. Without a
description the line is `_`; with one, colons in the value are escaped. fish receives `kind,value\tdescription`.
"""

from __future__ import annotations

import click
from click.shell_completion import BashComplete

__all__ = ["completion"]

PROGRAM = "pipeline-broker"
VARIABLE = "_PIPELINE_BROKER_COMPLETE"
"""The variable by which a script requests completions. click derives the name from the program's."""
ZSH = """\
#compdef pipeline-broker

_pipeline_broker() {
    local kind value description status_code=1
    local -a answer plain described
    answer=("${(@f)$(env _PIPELINE_BROKER_COMPLETE=zsh_complete \\
        COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT - 1)) pipeline-broker)}")
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='  # of --option=value the value is completed
    for kind value description in "${answer[@]}"; do
        case $kind in
            file) _files && status_code=0 ;;
            dir) _files -/ && status_code=0 ;;
            plain)
                if [[ $description == _ ]]; then
                    plain+=("$value")
                else
                    described+=("$value:$description")
                fi ;;
        esac
    done
    (( $#described )) && _describe -V 'pipeline-broker' described && status_code=0
    (( $#plain )) && compadd -V values -a plain && status_code=0
    return status_code
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _pipeline_broker "$@"  # a file on fpath: this is the first call
else
    compdef _pipeline_broker pipeline-broker
fi
"""
FISH = """\
function __pipeline_broker_complete
    set --local token (commandline --current-token --cut-at-cursor)
    set --local option (string match --regex -- '^--[^=]+=' "$token")
    set --local words (commandline --current-process --cut-at-cursor)
    set --local ask env _PIPELINE_BROKER_COMPLETE=fish_complete COMP_WORDS="$words" COMP_CWORD="$token"
    for line in ($ask pipeline-broker)
        set --local candidates
        set --local answer (string split --max 1 , -- $line)
        switch $answer[1]
            case plain
                set candidates "$answer[2]"
            case dir
                set candidates (__fish_complete_directories "$answer[2]")
            case file
                set candidates (__fish_complete_path "$answer[2]")
        end
        for candidate in $candidates
            printf '%s\\n' "$option$candidate"
        end
    end
end

complete --command pipeline-broker --no-files --arguments '(__pipeline_broker_complete)'
"""


@click.command(
    epilog="""\b
Examples:
  echo 'eval "$(pipeline-broker completion bash)"' >> ~/.bashrc
  echo 'eval "$(pipeline-broker completion zsh)"' >> ~/.zshrc
  pipeline-broker completion fish > ~/.config/fish/completions/pipeline-broker.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands, options, topics and groups."""
    if shell == "bash":
        click.echo(BashComplete(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
    else:
        click.echo({"zsh": ZSH, "fish": FISH}[shell])
