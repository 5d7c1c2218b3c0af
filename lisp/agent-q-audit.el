;;; agent-q-audit.el --- What tools did that can do harm  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows the audit log, to which the core appends a JSON line before and after
;; each cautious or dangerous call, and leads from a step to its call in the chat.  Nothing
;; here writes to it.

;;; Code:

(require 'agent-q)
(require 'agent-q-call)
(require 'agent-q-chat-history)
(require 'agent-q-chats)
(require 'agent-q-connection)
(require 'agent-q-json)
(require 'agent-q-names)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'parse-time)
(require 'seq)
(require 'tabulated-list)

(defconst agent-q-audit-tail 1000000
  "Most bytes of the end of the log that are read.")

(defconst agent-q-audit-page 300
  "Number of steps shown at first, and added by each \\<agent-q-audit-mode-map>\\[agent-q-audit-more].
To read and draw all that fits into `agent-q-audit-tail' takes seconds.")

(defvar-local agent-q-audit--shown agent-q-audit-page
  "Number of steps shown in this buffer.")

(defvar-local agent-q-audit--chats nil
  "The saved chats, alists, by their ids.")

(defvar-local agent-q-audit--note nil
  "The overlay that says how many steps there are.")

(defconst agent-q-audit--columns
  '((10 "Time" 14 t) (4 "Chat" 20 t :most 48) (10 "Tool" 17 t :most 30) (3 "Level" 9 t)
    (5 "Decision" 10 t) (2 "By" 7 t) (9 "Outcome" 9 t) (6 "ms" 6 nil :right-align t)
    (10 "Arguments" 0 nil))
  "The columns of the audit log, as for `agent-q-text-list-setup'.")

(defun agent-q-audit--line-format ()
  "Return a row of the columns that are shown, for `format'."
  (concat (mapconcat (pcase-lambda (`(,_ ,width ,_ . ,more))
                       (cond ((zerop width) "%s")
                             ((plist-get more :right-align) (format "%%%d.%ds" width width))
                             (t (format "%%-%d.%ds" width width))))
                     tabulated-list-format " ")
          "\n"))

(defvar agent-q-audit-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-audit-visit)
    (define-key map "d" #'agent-q-audit-describe)
    (define-key map "+" #'agent-q-audit-more)
    (agent-q-names-define-keys map)
    map)
  "Keymap of `agent-q-audit-mode'.")

(define-derived-mode agent-q-audit-mode tabulated-list-mode "agent-q audit"
  "Major mode of the audit log, the latest step first.
\\<agent-q-audit-mode-map>\\[agent-q-audit-visit] goes to the call in its chat, \
\\[agent-q-audit-describe] shows all that the log has of it.

\\{agent-q-audit-mode-map}"
  (setq tabulated-list-printer #'agent-q-audit--print
        agent-q-audit--shown agent-q-audit-page
        agent-q-audit--chats (make-hash-table :test #'equal)
        agent-q-audit--note (make-overlay (point-min) (point-max) nil nil t))
  (agent-q-text-list-setup agent-q-audit--columns #'agent-q-audit--entries
                           "No call of a cautious or dangerous tool yet.\n"))

(defun agent-q-audit--print (record columns)
  "Insert the row of RECORD with COLUMNS.
For `tabulated-list-printer', whose usual function takes far longer."
  (let ((start (point)))
    (insert (apply #'format (agent-q-audit--line-format) (append columns nil)))
    (add-text-properties start (point) `(tabulated-list-id ,record
                                         tabulated-list-entry ,columns))))

(defun agent-q-audit--name-chats ()
  "Ask the core for the saved chats, and show their titles in this list."
  (agent-q-chats-find
   "" (lambda (chats _problem)
        (clrhash agent-q-audit--chats)
        (dolist (chat chats)
          (puthash (alist-get 'id chat) chat agent-q-audit--chats))
        (agent-q-text-list-print))))

(defun agent-q-audit--chat (record)
  "Return what the chat of RECORD is called.
That of another program has its name; one that isn't saved, its number."
  (let* ((id (gethash "saved_as" record))
         (chat (gethash id agent-q-audit--chats)))
    (cond ((gethash "client" record))
          (chat (agent-q-chats-title chat))
          (t (agent-q-audit--text (or id (gethash "chat" record)))))))

(defun agent-q-audit-more ()
  "Show the older part of the log."
  (interactive nil agent-q-audit-mode)
  (setq agent-q-audit--shown (+ agent-q-audit--shown agent-q-audit-page))
  (tabulated-list-print t))

(defun agent-q-audit-file ()
  "Return the name of the audit log, which stands beside the core's log."
  (expand-file-name "audit.jsonl"
                    (file-name-directory (expand-file-name agent-q-log-file))))

;;;###autoload
(defun agent-q-audit-log ()
  "Show the audit log: each call of a cautious or dangerous tool, before and after.
Calls outside chats have chat 0."
  (interactive)
  (unless (file-readable-p (agent-q-audit-file))
    (user-error "No audit log yet at %s" (agent-q-audit-file)))
  (pop-to-buffer
   (with-current-buffer (get-buffer-create "*agent-q audit*")
     (agent-q-audit-mode)
     (setq agent-q-session-connection (agent-q-connection-default-connection))
     (agent-q-text-list-print)
     (goto-char (point-min))
     (agent-q-audit--name-chats)
     (current-buffer))))

(defun agent-q-audit-records (&optional most)
  "Return what the audit log has as hash tables, latest first.
No more than MOST, if given.  A line that can't be read is left out."
  (car (agent-q-audit--read most)))

(defun agent-q-audit--read (most)
  "Return the latest records, no more than MOST, and how many lines there are.
The value is a cons."
  (with-temp-buffer
    (let* ((file (agent-q-audit-file))
           (size (file-attribute-size (file-attributes file)))
           (start (max 0 (- size agent-q-audit-tail)))
           (records nil)
           (count 0))
      (let ((coding-system-for-read 'utf-8-unix))
        (insert-file-contents file nil start size))
      (unless (zerop start)
        (delete-region (point-min) (progn (forward-line 1) (point))))
      (goto-char (point-max))
      (while (and (not (bobp)) (or (null most) (< count most)))
        (forward-line -1)
        (let ((record (ignore-errors
                        (agent-q-json-parse
                         (buffer-substring (point) (line-end-position))))))
          (when (hash-table-p record)
            (setq count (1+ count))
            (push record records))))
      (cons (nreverse records) (count-lines (point-min) (point-max))))))

(defun agent-q-audit--entries ()
  "Return the rows of the audit log that are shown."
  (pcase-let ((`(,records . ,lines) (agent-q-audit--read agent-q-audit--shown)))
    (agent-q-audit--set-note (length records) lines)
    (mapcar (lambda (record)
              (list record
                    (vconcat
                     (mapcar (lambda (key) (agent-q-audit--cell key record))
                             '("time" "chat" "tool" "level" "decision"
                               "decided_by" "outcome" "milliseconds" "arguments")))))
            (agent-q-audit--calls records))))

(defun agent-q-audit--calls (records)
  "Return RECORDS, latest first, less each start of a call that ended."
  (let ((ended (make-hash-table :test #'equal))
        (calls nil))
    (dolist (record records)
      (let ((call (list (gethash "saved_as" record) (gethash "chat" record) (gethash "tool" record)
                        (agent-q-audit--text (gethash "arguments" record)))))
        (if (equal (gethash "step" record) "started")
            (if (> (gethash call ended 0) 0)
                (cl-decf (gethash call ended))
              (push record calls))
          (cl-incf (gethash call ended 0))
          (push record calls))))
    (nreverse calls)))

(defun agent-q-audit--cell (key record)
  "Return the text of RECORD for the column of KEY."
  (let ((value (gethash key record)))
    (pcase key
      ("time" (agent-q-audit--time value))
      ("tool" (if (agent-q-registry-effect-p value) (agent-q-registry-effect-words value)
                (agent-q-audit--text value)))
      ("decision" (if (equal value "not_needed") "automatic"
                    (agent-q-text-coloured (string-replace "_" " " (agent-q-audit--text value)))))
      ("level" (agent-q-text-coloured (agent-q-audit--text value)))
      ("chat" (agent-q-audit--text (agent-q-audit--chat record)))
      ("outcome" (agent-q-text-coloured (or value (gethash "step" record) "")))
      ("arguments" (agent-q-names-places-cell (agent-q-audit--short value)))
      (_ (agent-q-audit--text value)))))

(defun agent-q-audit--time (text &optional format)
  "Return TEXT, a time of the log, as the user's clock showed it, in FORMAT.
By default, that is short, and today has the time only."
  (condition-case nil
      (let ((time (parse-iso8601-time-string text)))
        (format-time-string
         (cond (format)
               ((equal (format-time-string "%F" time) (format-time-string "%F")) "%H:%M:%S")
               (t "%m-%d %H:%M:%S"))
         time))
    (error (agent-q-audit--text text))))

(defun agent-q-audit--short (arguments)
  "Return ARGUMENTS on a line, only the main one where there is such a value."
  (or (and (hash-table-p arguments)
           (seq-some (lambda (name)
                       (let ((value (gethash name arguments)))
                         (and (stringp value)
                              (agent-q-text-visible-line
                               (if (member name '("path" "file")) (agent-q-audit--file value)
                                 value)))))
                     '("form" "path" "file" "definition" "name" "system")))
      (agent-q-audit--text arguments)))

(defun agent-q-audit--file (path)
  "Return PATH with the name of its file first."
  (let ((name (file-name-nondirectory path))
        (directory (file-name-directory path)))
    (if (and directory (not (string-empty-p name))) (format "%s (%s)" name directory) path)))

(defun agent-q-audit--set-note (shown lines)
  "Say below the rows that SHOWN of LINES are there, unless these are all."
  (overlay-put agent-q-audit--note 'after-string
               (and (< shown lines)
                    (>= shown agent-q-audit--shown)
                    (propertize (format "[%d of %d steps; + shows more]" shown lines)
                                'face 'shadow))))

(defun agent-q-audit--text (value)
  "Return VALUE of a record for a column."
  (cond ((null value) "")
        ((stringp value) (agent-q-text-visible-line value))
        ((numberp value) (number-to-string value))
        (t (agent-q-text-visible-line (agent-q-json-encode value)))))

(defun agent-q-audit--at-point ()
  "Return the record at point."
  (or (tabulated-list-get-id)
      (user-error "No step on this line")))

(defun agent-q-audit-visit ()
  "Go to the call at point in its chat, which is opened if it isn't yet.
A call outside of chats is described instead."
  (interactive nil agent-q-audit-mode)
  (let* ((record (agent-q-audit--at-point))
         (id (gethash "saved_as" record))
         (client (gethash "client" record))
         (turn (gethash "turn" record)))
    (cond ((and (null id) (null client)) (agent-q-audit-describe))
          (client
           (pop-to-buffer
            (or (seq-find (lambda (buffer)
                            (equal client (buffer-local-value 'agent-q-session-mcp-client buffer)))
                          (agent-q-session-buffers))
                (user-error "%s is no longer connected" (agent-q-text-visible-line client 40))))
           (agent-q-audit--go-to record nil))
          ((or (agent-q-chats-buffer id) (gethash id agent-q-audit--chats))
           (let ((agent-q-chat-history-turns most-positive-fixnum))
             (agent-q-chats-go (or (gethash id agent-q-audit--chats) `((id . ,id)))))
           (agent-q-chat-history-when-shown
            turn (lambda (message) (agent-q-audit--go-to record message))))
          (t (user-error "This chat is no longer saved; d shows what the log has")))))

(defun agent-q-audit--go-to (record place)
  "Go to the call of RECORD in this chat, the first one after PLACE.
Where the log of the chat hasn't it, go to PLACE.  Without PLACE, it is the
last such call of all."
  (let ((item (or place (point-min))) (call nil))
    (while (and (not (and call place))
                (setq item (text-property-not-all item agent-q-render-end 'agent-q-item nil)))
      (when (agent-q-audit--call-p (agent-q-render-item-at item) record)
        (setq call item))
      (setq item (next-single-char-property-change item 'agent-q-item nil agent-q-render-end)))
    (goto-char (or call place (point-max)))
    (when-let ((window (get-buffer-window)))
      (set-window-point window (point)))))

(defun agent-q-audit--call-p (item record)
  "Whether ITEM of a chat's log is the call of RECORD."
  (and (agent-q-call-p item)
       (equal (agent-q-call-tool item) (gethash "tool" record))
       (or (hash-table-empty-p (gethash "arguments" record))
           (equal (agent-q-json-encode (agent-q-json-parse (agent-q-call-arguments item)))
                  (agent-q-json-encode (gethash "arguments" record)))
           ;; The log cuts long ones.
           (string-search "more bytes left out" (agent-q-json-encode (gethash "arguments" record))))))

(defun agent-q-audit-describe ()
  "Show the whole step at point."
  (interactive nil agent-q-audit-mode)
  (let ((record (agent-q-audit--at-point)))
    (agent-q-text-with-page "*agent-q audit step*"
      (maphash (lambda (key value)
                 (princ (format "%s: %s\n" (agent-q-audit--label key)
                                (agent-q-audit--value key value record))))
               record))
    (agent-q-names-enliven-page "*agent-q audit step*")))

(defun agent-q-audit--label (key)
  "Return what KEY of a record is called."
  (pcase key
    ("decided_by" "by")
    (_ (string-replace "_" " " (agent-q-text-visible-line key)))))

(defun agent-q-audit--value (key value record)
  "Return the whole VALUE that RECORD has for KEY, as text."
  (pcase key
    ((guard (hash-table-p value)) (agent-q-audit--arguments value))
    ("time" (agent-q-audit--time value "%F %T"))
    ((or "chat" "decision") (agent-q-audit--cell key record))
    (_ (agent-q-audit--text value))))

(defun agent-q-audit--arguments (arguments)
  "Return ARGUMENTS, a hash table, a line or more for each."
  (let ((lines nil))
    (maphash (lambda (name value)
               (push (format "\n  %s: %s" (agent-q-text-visible-line name)
                             (agent-q-text-visible (if (stringp value) value
                                                     (agent-q-json-encode value))))
                     lines))
             arguments)
    (apply #'concat (nreverse lines))))

(provide 'agent-q-audit)
;;; agent-q-audit.el ends here
