;;; agent-q-rewind-test.el --- Going back, and undoing that  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Conversation, files and definitions are taken back, and come back, also when the chat was
;; closed in between.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-chats)
(require 'agent-q-test-image)
(require 'agent-q-chat-history)

(defun agent-q-rewind-test--plan ()
  "Ask what going back to before the message at point would do; return that as text."
  (when (get-buffer "*agent-q rewind*")
    (kill-buffer "*agent-q rewind*"))
  (agent-q-rewind)
  (agent-q-test-until (get-buffer "*agent-q rewind*"))
  (with-current-buffer "*agent-q rewind*"
    (buffer-string)))

(defun agent-q-rewind-test--rewind (&optional untick)
  "Go back to before the message at point; UNTICK is a list of keys to press first."
  (agent-q-rewind-test--plan)
  (with-current-buffer "*agent-q rewind*"
    (dolist (key untick) (agent-q-test-press key))
    (agent-q-chat-history-rewind-do))
  (agent-q-test-until (agent-q-test-shows "[Undo this]")))

(defun agent-q-rewind-test--shown ()
  "Return the log as it is seen."
  (let ((position (point-min)) (text ""))
    (while (< position agent-q-render-end)
      (let ((next (next-single-char-property-change position 'invisible nil
                                                    agent-q-render-end)))
        (unless (invisible-p position)
          (setq text (concat text (buffer-substring-no-properties position next))))
        (setq position next)))
    text))

(ert-deftest agent-q-rewind-takes-back-conversation-and-files ()
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "create_file" :arguments
                                      (:path "a.txt" :content "one\n"))])])
        (:steps [(:text "Made.")])
        (:steps [(:tool_calls [(:name "edit_file" :arguments
                                      (:path "a.txt" :old_str "one" :new_str "two"))
                               (:name "create_file" :arguments
                                      (:path "b.txt" :content "b\n"))])])
        (:steps [(:text "Edited.")])
        (:steps [(:text "Anew.")]))
    (let ((agent-q-tool-levels '(("create_file" . :safe) ("edit_file" . :safe)))
          (a (expand-file-name "a.txt"))
          (b (expand-file-name "b.txt"))
          (content (lambda (file) (with-temp-buffer (insert-file-contents-literally file)
                                                    (buffer-string)))))
      (agent-q-test-with-chat
        (agent-q-test-ask "make it")
        (agent-q-test-ask "edit it")
        (should (equal (funcall content a) "two\n"))
        (goto-char (point-max))
        (agent-q-rewind-test--rewind)
        (should (equal (funcall content a) "one\n"))
        (should-not (file-exists-p b))
        (should (equal (agent-q-prompt-text) "edit it"))
        (should-not (string-search "Edited." (agent-q-rewind-test--shown)))
        (should (string-search "Made." (agent-q-rewind-test--shown)))
        ;; And back again.
        (goto-char (point-max))
        (search-backward "[Undo this]")
        (push-button)
        (agent-q-test-until (agent-q-test-shows "The rewind was undone."))
        ;; And is in sight.
        (should (eobp))
        (should (equal (funcall content a) "two\n"))
        (should (equal (funcall content b) "b\n"))
        (should (string-search "Edited." (agent-q-rewind-test--shown)))
        (agent-q-prompt-replace "")
        ;; The first message, the conversation alone.
        (agent-q-test-find "> make it")
        (let ((undo (point-max)))
          (agent-q-rewind)
          (agent-q-test-until (get-buffer "*agent-q rewind*"))
          (with-current-buffer "*agent-q rewind*"
            (should (agent-q-test-shows "a.txt"))
            (agent-q-test-press "f")
            (agent-q-chat-history-rewind-do))
          (agent-q-test-until (save-excursion (goto-char undo)
                                              (search-forward "[Undo this]" nil t))))
        (should (equal (funcall content a) "two\n"))
        (agent-q-prompt-replace "")
        (agent-q-test-ask "something else")
        (let ((request (agent-q-test-chats-last-request)))
          (should-not (string-search "edit it" request))
          (should-not (string-search "make it" request)))))))

(ert-deftest agent-q-rewind-is-no-change-of-the-next-turn ()
  "What going back did to files is not shown under a turn that only looks."
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "create_file" :arguments
                                      (:path "a.txt" :content "one\n"))])])
        (:steps [(:text "Made.")])
        (:steps [(:tool_calls [(:name "get_project_root" :arguments nil)])])
        (:steps [(:text "Looked.")]))
    (let ((agent-q-tool-levels '(("create_file" . :safe))))
      (agent-q-test-with-chat
        (agent-q-test-ask "make it")
        (agent-q-test-until (agent-q-test-shows "Changed a.txt"))
        (goto-char (point-max))
        (agent-q-rewind-test--rewind)
        (agent-q-prompt-replace "")
        (agent-q-test-ask "only look")
        (should (string-search "Looked." (agent-q-rewind-test--shown)))
        (should-not (string-search "Changed a.txt" (agent-q-rewind-test--shown)))))))

(ert-deftest agent-q-rewind-is-undone-after-the-chat-was-closed ()
  (agent-q-test-chats-with
      '((:steps [(:text "Hello.")])
        (:steps [(:tool_calls [(:name "create_file" :arguments
                                      (:path "a.txt" :content "one\n"))])])
        (:steps [(:text "Made.")])
        (:steps [(:text "On.")]))
    (let ((agent-q-tool-levels '(("create_file" . :safe)))
          (a (expand-file-name "a.txt"))
          id)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (agent-q-test-ask "hello")
        (goto-char (point-max))
        ;; It ran nothing.
        (should-not (string-match-p "Files:\\|Image:\\|undone:" (agent-q-rewind-test--plan)))
        (agent-q-test-ask "make it")
        (goto-char (point-max))
        (agent-q-rewind-test--rewind)
        (should-not (file-exists-p a)))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (agent-q-test-shows "Hello."))
        (should-not (agent-q-test-shows "Made."))
        (agent-q-test-find "[Undo this]")
        (push-button)
        (agent-q-test-until (agent-q-test-shows "The rewind was undone."))
        (agent-q-test-until (agent-q-test-shows "Made."))
        (should (file-exists-p a))
        (should (< (save-excursion (goto-char (point-min)) (search-forward "Hello."))
                   (save-excursion (goto-char (point-min)) (search-forward "make it"))))
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "go on")
        (should (string-search "make it" (agent-q-test-chats-last-request)))
        ;; And it is a turn like any other again.
        (agent-q-test-find "> make it")
        (agent-q-rewind-test--rewind)
        (agent-q-test-until (not (file-exists-p a)))))))

;; A sparse file takes no room, and not every system makes one.
(ert-deftest agent-q-rewind-leaves-a-file-that-grew-huge ()
  (skip-unless (executable-find "truncate"))
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "create_file" :arguments
                                      (:path "a.txt" :content "one\n"))])])
        (:steps [(:text "Made.")]))
    (let ((agent-q-tool-levels '(("create_file" . :safe)))
          (a (expand-file-name "a.txt")))
      (agent-q-test-with-chat
        (agent-q-test-ask "make it")
        (should (zerop (call-process "truncate" nil nil nil "-s" "1G" a)))
        (goto-char (point-max))
        (agent-q-rewind)
        (agent-q-test-until (get-buffer "*agent-q rewind*"))
        (with-current-buffer "*agent-q rewind*"
          (should (agent-q-test-shows "Files: 0 files"))
          (should (agent-q-test-shows "1.0 GB"))
          (agent-q-chat-history-rewind-do))
        (agent-q-test-until (agent-q-test-shows "[Undo this]"))
        (should (= (expt 2 30) (file-attribute-size (file-attributes a))))
        (delete-file a)))))

(agent-q-test-image-on-each definitions-come-back-when-a-rewind-is-undone-later ()
  "The definitions that a stored rewind took back come back, in the same image alone."
  (agent-q-test-chats-with
      '((:steps [(:text "Hello.")])
        (:steps [(:tool_calls [(:name "eval_form" :arguments
                                      (:form "(defun cl-user::aq-rewound () :new)"))])])
        (:steps [(:text "Defined.")]))
    (cl-flet ((value () (agent-q-test-image-values connection "(cl-user::aq-rewound)")))
      (let (id)
        (agent-q-test-image-eval connection "(defun cl-user::aq-rewound () :old)")
        (agent-q-test-with-chat
          (setq id agent-q-chat-history-id
                agent-q-session-connection connection)
          (agent-q-test-ask "hello")
          (agent-q-test-ask "define it")
          (should (equal '(":NEW") (value)))
          (goto-char (point-max))
          (agent-q-rewind-test--rewind)
          (should (equal '(":OLD") (value))))
        (agent-q-test-chats-resumed id
          (setq agent-q-session-connection connection)
          (agent-q-test-until (agent-q-test-shows "Hello."))
          (agent-q-test-find "[Undo this]")
          (push-button)
          (agent-q-test-until (agent-q-test-shows "brought back the function"))
          (should (equal '(":NEW") (value))))
        ;; Numbers of another image's journal mean other changes.
        (let ((value (agent-q-test-image-value connection "journal-redo"
                                               :ids '(1 2 3) :turns '("1.2/3/4"))))
          (should (equal value '(:results nil))))))))

;;;; Stored data is not trusted

(defun agent-q-rewind-test--file (id)
  "Return the name of the file of the chat ID."
  (expand-file-name (concat id ".jsonl") agent-q-chat-history-directory))

(defun agent-q-rewind-test--close (id)
  "Close the chat ID, which is still written for a moment then."
  (when (agent-q-chats-buffer id)
    (kill-buffer (agent-q-chats-buffer id)))
  (agent-q-test-until
   (let ((free 'unknown))
     (agent-q-chat-history-ask "deletable" (lambda (_ problem) (setq free (not problem)))
                               `(id . ,id))
     (agent-q-test-until (not (eq free 'unknown)))
     free)))

(defun agent-q-rewind-test--read (file)
  "Return the text of FILE, or nil if there is none."
  (and (file-exists-p file)
       (with-temp-buffer
         (insert-file-contents file)
         (buffer-string))))

(defun agent-q-rewind-test--edit (id edit)
  "Call EDIT with the stored chat ID in the current buffer, and save what it makes of it."
  (let ((file (agent-q-rewind-test--file id))
        (coding-system-for-write 'utf-8-unix))
    (with-temp-buffer
      (insert-file-contents file)
      (funcall edit)
      (write-region nil nil file nil 'silent))))

(defun agent-q-rewind-test--replace (old new)
  "Replace OLD by NEW everywhere here; it has to be there."
  (goto-char (point-min))
  (should (search-forward old nil t))
  (goto-char (point-min))
  (while (search-forward old nil t)
    (replace-match new t t)))

(defmacro agent-q-rewind-test--stored (&rest body)
  "Run BODY where a chat is stored that has made a.txt and edited it.
PROJECT is its directory, A the file, ID the chat, and OUTSIDE another directory."
  (declare (indent 0) (debug t))
  `(let ((agent-q-tool-levels '(("create_file" . :safe) ("edit_file" . :safe)
                                ("move_file" . :safe) ("write_to_buffer" . :safe)))
         (outside (file-name-as-directory
                   (file-truename (make-temp-file
                                   (expand-file-name "outside" agent-q-test-directory) t)))))
     (agent-q-test-chats-with
         '((:steps [(:tool_calls [(:name "create_file" :arguments
                                         (:path "a.txt" :content "one\n"))])])
           (:steps [(:text "Made.")])
           (:steps [(:tool_calls [(:name "edit_file" :arguments
                                         (:path "a.txt" :old_str "one" :new_str "two"))])])
           (:steps [(:text "Edited.")])
           (:steps [(:tool_calls [(:name "create_file" :arguments
                                         (:path "c.txt" :content "c\n"))])])
           (:steps [(:text "Added.")]))
       (let* ((project default-directory)
              (a (expand-file-name "a.txt"))
              (id nil))
         (ignore project outside)
         (agent-q-test-with-chat
           (setq id agent-q-chat-history-id)
           (agent-q-test-ask "make it")
           (agent-q-test-ask "edit it"))
         (agent-q-rewind-test--close id)
         (should (equal (agent-q-rewind-test--read a) "two\n"))
         ,@body))))

(defconst agent-q-rewind-test--foreign "can't be undone from this chat: "
  "What a chat says whose changes of files are not known to be its own.")

(defun agent-q-rewind-test--undoes-nothing ()
  "Make sure that this chat, which was resumed, undoes nothing in files, and says so once."
  (agent-q-test-until (agent-q-test-shows "> make it"))
  (should (= 1 (how-many (regexp-quote agent-q-rewind-test--foreign) (point-min) (point-max))))
  (should (string-empty-p (agent-q-core-changes agent-q-session-number)))
  (goto-char (point-max))
  (agent-q-undo-turn)
  (agent-q-test-until (agent-q-test-shows "Nothing to undo"))
  (agent-q-test-find "> make it")
  (let ((plan (agent-q-rewind-test--plan)))
    (should (string-search "Files: 0 files" plan))
    (should (string-match-p "Can't be undone:\n.*File changes up to turn [0-9]+ are no longer on record" plan)))
  (with-current-buffer "*agent-q rewind*"
    ;; Nothing is known of files, so they are not ticked.
    (agent-q-test-press "c")
    (should-error (agent-q-chat-history-rewind-do) :type 'user-error)
    (agent-q-test-press "f")
    (agent-q-chat-history-rewind-do))
  (agent-q-test-until (agent-q-test-shows "[Undo this]")))

(ert-deftest agent-q-rewind-a-chat-that-was-edited-undoes-nothing-in-files ()
  "Whatever the file of a chat says, its words alone make undoing write nowhere."
  (dolist (way '(file absent content moved buffer shown root))
    (ert-info ((format "%s" way))
      (agent-q-rewind-test--stored
        (let* ((victim (expand-file-name "victim" outside))
               (quoted (lambda (text) (agent-q-json-serialize text)))
               (text (pcase way ('absent nil) ('content "mine\n") (_ "two\n")))
               (kept (get-buffer-create "agent-q-rewind-test kept")))
          (when text
            (write-region text nil victim nil 'silent))
          (with-current-buffer kept
            (erase-buffer)
            (insert "two\n"))
          (agent-q-rewind-test--edit
           id
           (lambda ()
             (let ((file (concat "\"file\":" (funcall quoted a)))
                   (to-victim (concat "\"file\":" (funcall quoted victim))))
               (pcase way
                 ('file (agent-q-rewind-test--replace file to-victim))
                 ('absent (agent-q-rewind-test--replace file to-victim)
                          (goto-char (point-min))
                          (while (re-search-forward "\"after\":{[^}]*}" nil t)
                            (replace-match "\"after\":null" t t)))
                 ('content (agent-q-rewind-test--replace file to-victim)
                           (let ((hash (lambda (text)
                                         (base64-encode-string
                                          (secure-hash 'sha256 text nil nil t) t))))
                             (cl-flet ((bare (text) (string-trim-right (funcall hash text) "=")))
                               (agent-q-rewind-test--replace (bare "two\n") (bare "mine\n"))
                               (agent-q-rewind-test--replace "\"text\":\"two\\n\""
                                                             "\"text\":\"mine\\n\""))))
                 ('moved (goto-char (point-min))
                         (while (re-search-forward "\"recorded\":{.*\"folders\":0}" nil t)
                           (replace-match
                            (format "\"recorded\":{\"from\":%s,\"to\":%s,\"folders\":0}"
                                    (funcall quoted (expand-file-name "notes.txt" project))
                                    (funcall quoted victim))
                            t t)))
                 ('buffer (agent-q-rewind-test--replace
                           file (concat "\"buffer\":" (funcall quoted (buffer-name kept)))))
                 ('shown (agent-q-rewind-test--replace
                          file (concat "\"shown\":\"a.txt\"," to-victim)))
                 ('root (agent-q-rewind-test--replace (funcall quoted a)
                                                      (funcall quoted victim))
                        (agent-q-rewind-test--replace
                         (concat "\"root\":" (funcall quoted project))
                         (concat "\"root\":" (funcall quoted outside))))))))
          (agent-q-test-chats-resumed id
            (agent-q-rewind-test--undoes-nothing))
          (should (equal (agent-q-rewind-test--read victim) text))
          (should (equal (agent-q-rewind-test--read a) "two\n"))
          (should (equal (with-current-buffer kept (buffer-string)) "two\n"))
          (should-not (file-exists-p (expand-file-name "notes.txt" project)))
          (kill-buffer kept))))))

(ert-deftest agent-q-rewind-a-rewind-that-was-put-in-undoes-nothing-in-files ()
  (agent-q-rewind-test--stored
    (agent-q-rewind-test--edit
     id
     (lambda ()
       (goto-char (point-max))
       (re-search-backward "\"step\":{\"turn\":\\([0-9]+\\)}")
       (let ((turn (match-string 1)))
         (goto-char (point-max))
         (insert (format "{\"kind\":\"rewound\",\"turn\":%s,\"rewind\":%s,\"at\":1}\n"
                         turn turn)))))
    (agent-q-test-chats-resumed id
      (agent-q-test-until (agent-q-test-shows "[Undo this]"))
      (agent-q-undo-rewind)
      (agent-q-test-until (agent-q-test-shows "The rewind was undone."))
      (should (equal (agent-q-rewind-test--read a) "two\n")))))

(ert-deftest agent-q-rewind-what-its-own-chat-changed-is-undone-by-another-emacs ()
  "Also when the last line was cut off, as when Emacs is killed."
  (dolist (way '(whole cut))
    (ert-info ((format "%s" way))
      (agent-q-rewind-test--stored
        (when (eq way 'cut)
          (agent-q-rewind-test--edit
           id
           (lambda () (delete-region (- (point-max) 12) (point-max)))))
        (let ((form `(progn
                       (require 'agent-q-module)
                       (require 'agent-q-chats)
                       (setq agent-q-chat-history-directory ,agent-q-chat-history-directory
                             agent-q-log-file ,agent-q-log-file
                             agent-q-provider 'none)
                       (cl-flet ((await (test)
                                        (let ((until (+ (float-time) 60)))
                                          (while (and (not (funcall test)) (< (float-time) until))
                                            (accept-process-output nil 0.01)))))
                         (set-buffer (agent-q-chats-open ,id nil ,project))
                         (await (lambda () (string-search "> make it" (buffer-string))))
                         (agent-q-undo-turn)
                         (await (lambda () (string-search "Undone:" (buffer-string))))
                         (princ (buffer-substring-no-properties (point-min) (point-max)))))))
          (with-temp-buffer
            (call-process (expand-file-name invocation-name invocation-directory) nil t nil
                          "-Q" "--batch"
                          "-L" (file-name-directory (locate-library "agent-q-module"))
                          "--eval" (prin1-to-string form))
            (should (string-search "Undone:\n- a.txt" (buffer-string)))
            (should-not (string-search agent-q-rewind-test--foreign (buffer-string)))))
        (should (equal (agent-q-rewind-test--read a) "one\n"))
        ;; And here the turn before it.
        (agent-q-test-chats-resumed id
          (agent-q-test-until (agent-q-test-shows "> make it"))
          (should-not (agent-q-test-shows agent-q-rewind-test--foreign))
          (agent-q-test-find "> make it")
          (agent-q-rewind-test--rewind)
          (should-not (file-exists-p a)))))))

(ert-deftest agent-q-rewind-a-copied-chat-undoes-only-what-it-does-itself ()
  (agent-q-rewind-test--stored
    (let ((copy "session-20260101-000000-C0B1"))
      (copy-file (agent-q-rewind-test--file id) (agent-q-rewind-test--file copy))
      (agent-q-test-chats-resumed copy
        (agent-q-rewind-test--undoes-nothing)
        (should (equal (agent-q-rewind-test--read a) "two\n"))
        (agent-q-prompt-replace "")
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "add one"))
      (agent-q-rewind-test--close copy)
      (should (file-exists-p (expand-file-name "c.txt" project)))
      (agent-q-test-chats-resumed copy
        (agent-q-test-until (agent-q-test-shows "> add one"))
        (should (agent-q-test-shows agent-q-rewind-test--foreign))
        (agent-q-undo-turn)
        (agent-q-test-until (agent-q-test-shows "Undone:\n- c.txt"))
        (should-not (file-exists-p (expand-file-name "c.txt" project)))
        (agent-q-undo-turn)
        (agent-q-test-until (agent-q-test-shows "Nothing to undo"))
        (should (equal (agent-q-rewind-test--read a) "two\n"))))))

(ert-deftest agent-q-rewind-without-its-key-a-chat-undoes-nothing-in-files ()
  (let* ((folder (file-name-as-directory
                  (make-temp-file (expand-file-name "state" agent-q-test-directory) t)))
         (agent-q-log-file (expand-file-name "core.log" folder))
         (key (expand-file-name "agent-q-chats.key" folder)))
    (agent-q-rewind-test--stored
      (should (= 32 (file-attribute-size (file-attributes key))))
      (should (= #o600 (file-modes key)))
      (should (equal (directory-files folder nil "agent-q-chats") '("agent-q-chats.key")))
      ;; Others could have read it.
      (set-file-modes key #o640)
      (agent-q-test-chats-resumed id
        (should (agent-q-test-shows "is not a key that only you can read"))
        (agent-q-rewind-test--undoes-nothing)
        (agent-q-prompt-replace "")
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "add one")
        (should (agent-q-test-shows
                 "can't be undone once Emacs was restarted: ")))
      (agent-q-rewind-test--close id)
      (delete-file key)
      (agent-q-test-chats-resumed id
        (should (agent-q-test-shows "or the key is lost"))
        (should-not (file-exists-p key))))))

(defmacro agent-q-rewind-test--answering (answer &rest body)
  "Run BODY while each question about a place gets ANSWER; return the questions."
  (declare (indent 1) (debug t))
  `(let ((asked nil))
     (cl-letf (((symbol-function 'yes-or-no-p)
                (lambda (question)
                  ;; Not in a menu.
                  (unless use-dialog-box (push question asked))
                  ,answer)))
       ,@body)
     asked))

(ert-deftest agent-q-rewind-asks-before-it-writes-outside-of-the-project-or-what-is-private ()
  (let ((agent-q-tool-levels '(("create_file" . :safe)))
        (outside (file-truename (make-temp-file (expand-file-name "outside" agent-q-test-directory)
                                                t))))
    (agent-q-test-chats-with
        `((:steps [(:tool_calls [(:name "create_file" :arguments
                                        (:path ,(expand-file-name "b.txt" outside)
                                               :content "b\n"))
                                 (:name "create_file" :arguments
                                        (:path "a.pem" :content "a\n"))
                                 (:name "create_file" :arguments
                                        (:path "c.txt" :content "c\n"))])])
          (:steps [(:text "Made.")]))
      (let ((b (expand-file-name "b.txt" outside))
            (there (lambda (file) (file-exists-p (expand-file-name file)))))
        (agent-q-test-with-chat
          (agent-q-test-send "make them")
          (while (progn (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
                        (agent-q-call-waiting))
            (agent-q-test-answer "y"))
          (agent-q-test-find "> make them")
          (let ((plan (agent-q-rewind-test--plan)))
            (should (string-search (concat b " (asks first)\n") plan))
            (should (string-search "a.pem (asks first)\n" plan))
            (should (string-search "c.txt\n" plan)))
          (let ((asked (agent-q-rewind-test--answering nil
                         (agent-q-undo-turn)
                         (agent-q-test-until (agent-q-test-shows "Undone:\n- c.txt\nNot undone:\n- ")))))
            (should (= 1 (length asked)))
            (should (string-search (format "'%s' is outside the project." b) (car asked)))
            (should (string-search "'a.pem' may hold secrets" (car asked))))
          (should (agent-q-test-shows "is outside the project. It was left as it is."))
          (should (funcall there b))
          (should (funcall there "a.pem"))
          (should-not (funcall there "c.txt"))
          (agent-q-test-find "> make them")
          (agent-q-rewind-test--answering t
            (agent-q-rewind-test--rewind))
          (should-not (funcall there b))
          (should-not (funcall there "a.pem"))
          (should (= 1 (length (agent-q-rewind-test--answering t
                                 (agent-q-undo-rewind)
                                 (agent-q-test-until
                                  (agent-q-test-shows "The rewind was undone."))))))
          (should (funcall there b)))))))

(ert-deftest agent-q-rewind-writes-nothing-through-a-link-that-came-since ()
  (agent-q-rewind-test--stored
    (let ((victim (expand-file-name "victim" outside)))
      (write-region "two\n" nil victim nil 'silent)
      (delete-file a)
      (make-symbolic-link victim a)
      (agent-q-test-chats-resumed id
        (agent-q-test-until (agent-q-test-shows "> make it"))
        (should-not (agent-q-test-shows agent-q-rewind-test--foreign))
        (agent-q-undo-turn)
        (agent-q-test-until (agent-q-test-shows (format "'%s' leads to '%s' now" a victim)))
        (agent-q-test-find "> make it")
        (let ((plan (agent-q-rewind-test--plan)))
          (should (string-search "Files: 0 files" plan))
          (should (string-search (format "leads to '%s' now" victim) plan)))
        (should (equal (agent-q-rewind-test--read victim) "two\n"))))))

(ert-deftest agent-q-rewind-leaves-buffers-that-another-emacs-changed ()
  (let ((agent-q-tool-levels '(("write_to_buffer" . :safe))))
    (agent-q-test-chats-with
        '((:steps [(:tool_calls [(:name "write_to_buffer" :arguments
                                        (:buffer "agent-q notes" :content "new"))])])
          (:steps [(:text "Written.")]))
      (with-current-buffer (get-buffer-create "agent-q notes")
        (erase-buffer)
        (insert "old "))
      (unwind-protect
          (let (id)
            (cl-flet ((notes () (with-current-buffer "agent-q notes" (buffer-string))))
              (agent-q-test-with-chat
                (setq id agent-q-chat-history-id)
                (agent-q-test-ask "write it")
                (should (equal (notes) "old new")))
              (agent-q-rewind-test--close id)
              (agent-q-test-chats-resumed id
                (agent-q-test-until (agent-q-test-shows "> write it"))
                (agent-q-test-find "> write it")
                (should (string-search "was changed in another Emacs"
                                       (agent-q-rewind-test--plan)))
                (with-current-buffer "*agent-q rewind*"
                  (agent-q-chat-history-rewind-do))
                (agent-q-test-until (agent-q-test-shows "[Undo this]"))
                (should (equal (notes) "old new")))))
        (kill-buffer "agent-q notes")))))

(provide 'agent-q-rewind-test)
;;; agent-q-rewind-test.el ends here
