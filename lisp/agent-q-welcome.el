;;; agent-q-welcome.el --- The first lines of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a chat begins with: the Lisp image and the model that it has, or how to get them,
;; and a few things to try.  It is drawn again when one of them changes, until the first
;; turn begins.

;;; Code:

(require 'agent-q-facts)
(require 'agent-q-header)
(require 'agent-q-image-connection)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-provider)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-visible)
(require 'button)
(require 'cl-lib)
(require 'seq)

(cl-defstruct (agent-q-welcome (:include agent-q-render-item)
                               (:constructor agent-q-welcome--make) (:copier nil))
  "The first lines of a chat.")

(defvar-local agent-q-welcome--item nil
  "The first lines of this chat while they can still change.")

(defvar-local agent-q-welcome--hint nil
  "What is said of the model of this chat below its name, or nil.")

(defvar agent-q-welcome-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") #'agent-q-welcome-next)
    (define-key map (kbd "RET") #'agent-q-welcome-to-prompt)
    map)
  "Keymap on the first lines of a chat.")

(defun agent-q-welcome-next ()
  "Go to the next button of the first lines, or to the prompt."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (condition-case nil
      (forward-button 1)
    (error (goto-char (point-max)))))

(defun agent-q-welcome-to-prompt ()
  "Go to the prompt."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (point-max)))

;;;; Their text

(defun agent-q-welcome--button (label help function)
  "Return LABEL as a button for FUNCTION, explained by HELP."
  (make-text-button (copy-sequence label) nil 'follow-link t 'help-echo help
                    'action (lambda (_button) (funcall function))))

(defun agent-q-welcome--command (name)
  "Return a button for the command called NAME.
It is loaded by then; some files that have such a command stand on this one."
  (agent-q-welcome--button (format "[M-x %s]" name) (format "M-x %s" name)
                           (lambda () (call-interactively (intern name)))))

(defun agent-q-welcome--suggestion (text)
  "Return a button that puts TEXT at the prompt."
  (agent-q-welcome--button (format "[%s]" text) "put it at the prompt"
                           (lambda () (agent-q-prompt-replace text))))

(defun agent-q-welcome--connected-p ()
  "Whether this chat has an image."
  (agent-q-image-live-p agent-q-session-connection))

(defun agent-q-welcome--image ()
  "Return the words on the image of this chat."
  (if (agent-q-welcome--connected-p)
      (agent-q-visible-line (agent-q-image-facts agent-q-session-connection) 60)
    (let ((clients (seq-filter (lambda (client)
                                 (or (featurep client) (locate-library (symbol-name client))))
                               '(sly slime))))
      (if clients
          (concat "none; "
                  (mapconcat (lambda (client) (agent-q-welcome--command (symbol-name client)))
                             clients " or ")
                  " starts one")
        (concat "none; neither SLY nor SLIME is installed")))))

(defun agent-q-welcome--model ()
  "Return the words on the model of this chat."
  (cond (agent-q-session-provider
         (concat (agent-q-visible-line (agent-q-provider-label agent-q-session-provider) 60)
                 (if agent-q-welcome--hint (concat "\n       " agent-q-welcome--hint) "")))
        ((null agent-q-header-model) "looking for one")
        ;; A button that is alone on its line is not broken.
        (t (concat "none; put a key into auth-source or the environment, or start Ollama\n       "
                   (agent-q-welcome--command "agent-q-demo-model") " starts a tiny demo model\n       "
                   (agent-q-welcome--command "agent-q-doctor") " says what is missing\n       "
                   (agent-q-welcome--command "agent-q-set-model") " looks again"))))

(defun agent-q-welcome--suggestions ()
  "Return what can be typed now, three things at most.
The demo model answers no questions, so only the console's are left with it."
  (pcase (list (and agent-q-session-provider (not (agent-q-provider-demo-p agent-q-session-provider)))
               (and (agent-q-welcome--connected-p) t)
               (and (agent-q-project-directory) t))
    ('(t t nil) '("Which systems are loaded?" "/describe_symbol mapcar" "/apropos_search hash"))
    ('(t nil nil) '("Which buffers do I have?" "/list_buffers"))
    ('(nil nil nil) '("/list_buffers"))
    ('(t t t) '("What does this project do, and is it loaded?"
              "Run the tests of this project." "/describe_symbol mapcar"))
    ('(t nil t) '("What does this project do?" "Where would I begin to read it?"
                "/get_project_root"))
    (`(nil t ,_) '("/describe_symbol mapcar" "/apropos_search hash" "/eval_form (+ 1 2)"))
    (_ '("/get_project_root" "/search_files *.lisp" "/list_buffers"))))

(defun agent-q-welcome--entry (title text)
  "Return TEXT under TITLE, a line that wraps beside it."
  (let ((entry (format "%-6s %s\n" title text)))
    (add-text-properties 0 (length entry) '(wrap-prefix "       ") entry)
    entry))

(defun agent-q-welcome--dim (text)
  "Dim what is not a button of TEXT."
  (let ((from 0))
    (while (< from (length text))
      (let ((to (next-single-property-change from 'button text (length text))))
        (unless (get-text-property from 'button text)
          (add-face-text-property from to 'agent-q-dim t text))
        (setq from to)))))

(defun agent-q-welcome--draw (_item)
  "Return the text of the first lines."
  (let ((text (concat
               (propertize (format "agent-q, in %s\n"
                                   (agent-q-visible-line
                                    (let ((root (agent-q-project-directory)))
                                      (if root (abbreviate-file-name root) default-directory))))
                           'face 'bold)
               (if (agent-q-project-directory) ""
                 (agent-q-welcome--entry
                  "Files" "none: they are on another machine, where tools don't reach"))
               (agent-q-welcome--entry "Image" (agent-q-welcome--image))
               (agent-q-welcome--entry "Model" (agent-q-welcome--model))
               (agent-q-welcome--entry "Try" (mapconcat #'agent-q-welcome--suggestion
                                                        (agent-q-welcome--suggestions) "\n       "))
               (substitute-command-keys
                "\\<agent-q-chat-mode-map>\\[agent-q-chat-return] sends.  \
\\[agent-q-chat-tab] completes commands and tools after /, and what to attach after @.  \
\\[agent-q-menu] is the menu; \\[agent-q-ask] asks from any buffer."))))
    (agent-q-render-fill-keymap text agent-q-welcome-map)
    ;; Buttons keep their own look.
    (agent-q-welcome--dim text)
    ;; Nothing can be typed before the first character either.
    (put-text-property 0 1 'front-sticky '(read-only) text)
    text))

;;;; Showing them

(defun agent-q-welcome-setup ()
  "Put the first lines into the empty log of this chat."
  (setq agent-q-welcome--item (agent-q-welcome--make :draw #'agent-q-welcome--draw :apart t))
  (agent-q-render-add-item agent-q-welcome--item))

(defun agent-q-welcome-update ()
  "Draw the first lines of this chat again, unless it has begun."
  (when agent-q-welcome--item
    (agent-q-render-update-item agent-q-welcome--item)))

(defun agent-q-welcome-hint-about (provider)
  "Say what is missing in the facts of the model of PROVIDER, an alist or nil.
That is in the first lines of this chat while they can change."
  (let* ((hint (and provider
                    (not (agent-q-provider-demo-p provider))
                    (agent-q-facts-hint (alist-get 'base_url provider) (alist-get 'model provider)
                                        (alist-get 'context_window
                                                   (alist-get 'facts provider)))))
         (line (and hint (agent-q-visible-line hint 120))))
    (if agent-q-welcome--item
        (setq agent-q-welcome--hint line)
      (when line
        (message "%s" line)))))

(defun agent-q-welcome-shown-p ()
  "Whether the first lines of this chat still follow what it has."
  (and agent-q-welcome--item t))

(defun agent-q-welcome-finish ()
  "Leave the first lines of this chat as they are from now on."
  (setq agent-q-welcome--item nil))

(provide 'agent-q-welcome)
;;; agent-q-welcome.el ends here
