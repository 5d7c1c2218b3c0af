;;; agent-q-tool-list.el --- All tools, and what they cost  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Two tables.  `agent-q-list-tools' shows each tool with its level and
;; origin, and switches what a chat offers to the model.
;; `agent-q-tool-statistics' shows what calls have cost.

;;; Code:

(require 'agent-q)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-registry)
(require 'agent-q-session)
(require 'agent-q-specifications)
(require 'agent-q-text)
(require 'agent-q-tool)
(require 'tabulated-list)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; The tools

(defvar-local agent-q-tool-list--chat nil
  "The chat whose tools this list switches, or nil.")

(defvar agent-q-tool-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "SPC") #'agent-q-tool-list-toggle)
    (define-key map "t" #'agent-q-tool-list-toggle)
    (define-key map "l" #'agent-q-tool-list-set-level)
    (define-key map (kbd "RET") #'agent-q-tool-list-describe)
    (define-key map "s" #'agent-q-tool-statistics)
    map)
  "Keymap of `agent-q-tool-list-mode'.")

(define-derived-mode agent-q-tool-list-mode tabulated-list-mode "agent-q tools"
  "Major mode of the list of all tools.
The first column says which of them the chat, from which the list was
opened, offers to the model.  In a chat that follows an agent these are the
agent's tools, with the libraries that they are from.

\\{agent-q-tool-list-mode-map}"
  (agent-q-text-list-setup
   '((10 "Offered" 7 t) (10 "Tool" 22 t :most 36) (8 "Level" 16 t) (3 "Origin" 12 t)
     (1 "Categories" 24 t) (5 "Calls" 6 agent-q-tool-list--fewer :right-align t)
     (4 "Failed" 6 agent-q-tool-list--fewer :right-align t)
     (2 "Median ms" 9 agent-q-tool-list--fewer :right-align t)
     (9 "Description" 0 nil))
   #'agent-q-tool-list--entries))

(defun agent-q-tool-list--fewer (one other)
  "Return a function's answer whether row ONE comes before OTHER by number.
The column is the one that the list is sorted by."
  (let ((column (tabulated-list--column-number (car tabulated-list-sort-key))))
    (< (string-to-number (aref (cadr one) column))
       (string-to-number (aref (cadr other) column)))))

;;;###autoload
(defun agent-q-list-tools ()
  "Show all tools.
In a chat, the list switches which of them the chat offers to the model."
  (interactive)
  (agent-q-registry-ensure)
  (let ((chat (and agent-q-session-chat-p (current-buffer))))
    (pop-to-buffer
     (with-current-buffer (get-buffer-create "*agent-q tools*")
       (agent-q-tool-list-mode)
       (setq agent-q-tool-list--chat chat)
       (tabulated-list-print)
       (current-buffer)))))

(defun agent-q-tool-list--entries ()
  "Return the rows of the list of tools."
  (let* ((agent (agent-q-tool-list--agent))
         (offered (if agent nil (agent-q-tool-list--offered)))
         (statistics (agent-q-tool-statistics-data)))
    (append
     (mapcar (pcase-lambda (`(,tool ,library))
               (agent-q-tool-list--row tool library t statistics))
             (agent-q-tool-list--bound))
     (mapcar (lambda (tool)
               (agent-q-tool-list--row
                tool nil (member (agent-q-tool-name tool) offered) statistics))
             (agent-q-get-tools)))))

(defun agent-q-tool-list--row (tool library offered statistics)
  "Return the row of TOOL, from LIBRARY if that isn't nil.
OFFERED says whether the chat offers it; STATISTICS are those of all tools.
The row is known by the name of the tool, and a library's by a list of both."
  (let* ((name (agent-q-tool-name tool))
         (numbers (seq-find (lambda (row)
                              (and (equal (plist-get row :tool) name)
                                   (equal (plist-get row :library) library)))
                            statistics)))
    (list (if library (list name library) name)
          (vector (if offered "+" "")
                  name
                  (agent-q-tool-list--level tool)
                  (agent-q-tool-list--origin tool library)
                  (mapconcat (lambda (category) (substring (symbol-name category) 1))
                             (agent-q-tool-categories tool) " ")
                  (number-to-string (or (plist-get numbers :calls) 0))
                  (number-to-string (or (plist-get numbers :failures) 0))
                  (agent-q-tool-list--milliseconds (plist-get numbers :median))
                  (car (split-string (agent-q-tool-description tool) "\n"))))))

(defun agent-q-tool-list--origin (tool library)
  "Return where TOOL is from: LIBRARY, or its own origin."
  (pcase (if library (list 'library library) (agent-q-tool-origin tool))
    (`(,kind ,name) (format "%s %s" kind name))
    (origin (format "%s" origin))))

(defun agent-q-tool-list--level (tool)
  "Return the level of TOOL, marked if the user set it."
  (concat (agent-q-text-coloured (agent-q-tool-level-name (agent-q-tool-safety-level tool)))
          (if (agent-q-tool-user-level (agent-q-tool-name tool)) " (yours)" "")))

(defun agent-q-tool-list--milliseconds (milliseconds)
  "Return MILLISECONDS, a number or nil, for a column."
  (if milliseconds (format "%.1f" milliseconds) ""))

(defun agent-q-tool-list--offered ()
  "Return the tools of this list's chat, as `agent-q-registry-offered' would."
  (if (buffer-live-p agent-q-tool-list--chat)
      (with-current-buffer agent-q-tool-list--chat (agent-q-registry-offered))
    (agent-q-registry-offered)))

(defun agent-q-tool-list--agent ()
  "Return the agent that this list's chat follows, or nil."
  (let ((choice (and (buffer-live-p agent-q-tool-list--chat)
                     (buffer-local-value 'agent-q-specifications-agent-current
                                         agent-q-tool-list--chat))))
    (and choice (agent-q-specifications-agent-choice-agent choice))))

(defun agent-q-tool-list--bound ()
  "Return the tools of the agent of this list's chat, as (TOOL LIBRARY) each."
  (and (agent-q-tool-list--agent)
       (with-current-buffer agent-q-tool-list--chat (agent-q-specifications-agent-offered))))

(defun agent-q-tool-list--id ()
  "Return the id of the row at point."
  (or (tabulated-list-get-id)
      (user-error "No tool on this line")))

(defun agent-q-tool-list--name ()
  "Return the name of the tool at point."
  (let ((id (agent-q-tool-list--id)))
    (if (consp id) (car id) id)))

(defun agent-q-tool-list-toggle ()
  "Offer the tool at point to the model of the chat, or stop offering it.
It takes effect with the next message."
  (interactive nil agent-q-tool-list-mode)
  (when (agent-q-tool-list--agent)
    (user-error "This chat follows the agent %s, which brings its own tools; switching has no effect there"
                (agent-q-agent-name (agent-q-tool-list--agent))))
  (let* ((name (agent-q-tool-list--name))
         (offered (agent-q-tool-list--offered))
         (new (if (member name offered) (remove name offered)
                (append offered (list name)))))
    (unless (buffer-live-p agent-q-tool-list--chat)
      (user-error "Open this list from a chat to switch its tools"))
    (with-current-buffer agent-q-tool-list--chat
      (setq-local agent-q-offered-tools (or new 'none)))
    (tabulated-list-print t)
    (forward-line 1)))

(defun agent-q-tool-list-set-level (level)
  "Set the safety LEVEL of the tool at point for this session of Emacs.
To keep it, save the option `agent-q-tool-levels'."
  (interactive
   (list (intern (completing-read
                  (format "Level of %s: " (agent-q-tool-list--name))
                  '("safe" "cautious" "dangerous" "its own") nil t)))
   agent-q-tool-list-mode)
  (let* ((name (agent-q-tool-list--name))
         (others (assoc-delete-all name (copy-alist agent-q-tool-levels))))
    (customize-set-variable 'agent-q-tool-levels
                            (if (memq level '(safe cautious dangerous))
                                (cons (cons name (agent-q-module-level level)) others)
                              others))
    (tabulated-list-print t)))

(defun agent-q-tool-list-describe ()
  "Show the details of the tool at point."
  (interactive nil agent-q-tool-list-mode)
  (let* ((name (agent-q-tool-list--name))
         (library (car (cdr-safe (agent-q-tool-list--id))))
         (tool (if library
                   (car (seq-find (pcase-lambda (`(,tool ,from))
                                    (and (equal from library)
                                         (equal (agent-q-tool-name tool) name)))
                                  (agent-q-tool-list--bound)))
                 (agent-q-get-tool name))))
    (unless tool
      (user-error "The tool %s no longer exists" name))
    (agent-q-text-with-page "*agent-q tool*"
      (princ (format "%s is a %s tool (%s)\n\n%s\n\nSchema of its arguments:\n%s\n"
                     name (agent-q-tool-level-name (agent-q-tool-safety-level tool))
                     (agent-q-tool-list--origin tool library)
                     (agent-q-tool-description tool)
                     (agent-q-json-pretty (agent-q-tool-schema tool)))))))

;;;; What they cost

;;;###autoload
(defun agent-q-tool-statistics-data ()
  "Return the statistics of tools so far, a property list for each:
:tool and :library are names, the latter nil outside libraries; :client is
the other agent that called, nil for chats and programs; :calls,
:failures, :denials and :cancellations are counts; :median and :p95 are
milliseconds, nil when nothing ran; :result-bytes is the size of all results."
  (agent-q-registry-ensure)
  (agent-q-core-statistics))

(define-derived-mode agent-q-tool-list-statistics-mode tabulated-list-mode "agent-q statistics"
  "Major mode of the statistics of tools."
  (agent-q-text-list-setup
   `((10 "Tool" 22 t :most 36) (1 "Library" 12 t)
     ;; Where no other agent called, there is nothing in it.
     (,(if (seq-some (lambda (row) (plist-get row :client)) (agent-q-tool-statistics-data)) 7 0)
      "Client" 12 t)
     (10 "Calls" 7 agent-q-tool-list--fewer :right-align t)
     (9 "Failed" 7 agent-q-tool-list--fewer :right-align t)
     (5 "Denied" 7 agent-q-tool-list--fewer :right-align t)
     (2 "Cancelled" 9 agent-q-tool-list--fewer :right-align t)
     (8 "Median ms" 10 agent-q-tool-list--fewer :right-align t)
     (6 "P95 ms" 8 agent-q-tool-list--fewer :right-align t)
     (3 "Bytes/call" 10 agent-q-tool-list--fewer :right-align t))
   #'agent-q-tool-list--statistics
   "No tool was called yet.\n"))

;;;###autoload
(defun agent-q-tool-statistics ()
  "Show how often tools were called, how they ended, and their time and size."
  (interactive)
  (agent-q-registry-ensure)
  (pop-to-buffer
   (with-current-buffer (get-buffer-create "*agent-q tool statistics*")
     (agent-q-tool-list-statistics-mode)
     (agent-q-text-list-print)
     (goto-char (point-min))
     (current-buffer))))

(defun agent-q-tool-list--statistics ()
  "Return the rows of the statistics."
  (mapcar
   (lambda (row)
     (let ((calls (plist-get row :calls)))
       (list (list (plist-get row :tool) (plist-get row :library) (plist-get row :client))
             (vector (plist-get row :tool)
                     (or (plist-get row :library) "")
                     (or (plist-get row :client) "")
                     (number-to-string calls)
                     (number-to-string (plist-get row :failures))
                     (number-to-string (plist-get row :denials))
                     (number-to-string (plist-get row :cancellations))
                     (agent-q-tool-list--milliseconds (plist-get row :median))
                     (agent-q-tool-list--milliseconds (plist-get row :p95))
                     (number-to-string (/ (plist-get row :result-bytes) (max 1 calls)))))))
   (agent-q-tool-statistics-data)))

(provide 'agent-q-tool-list)
;;; agent-q-tool-list.el ends here
